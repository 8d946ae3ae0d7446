//! Crews of threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::gate::Gate;
use super::lane::{Lane, Tally};
use super::schedule::Schedule;
use super::speeds::Speeds;
use super::worker::{Stopped, Worker};
use crate::failure::Failure;

/// Called now and then with the time of a cell that has been measured. An error ends the cell.
pub(in crate::bench) type Watch<'a> = &'a mut dyn FnMut(Duration) -> Result<(), Failure>;

/// How often the coordinator looks: rarely, since it runs beside a worker.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the schedule with one thread for each of `workers`, which are their
/// lanes. `watch` is called now and then; its error ends the run at the next slice.
pub(in crate::bench) fn run_threads(
    schedule: &Schedule,
    cpus: &[usize],
    workers: Vec<Vec<Box<dyn Lane + '_>>>,
    mut watch: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Speeds, Failure> {
    let gate = Gate::default();
    let crew = workers.len() as u32;
    let nr_done = AtomicU32::new(0);
    // The channel carries nothing: it breaks when the last worker is through.
    let (working, through) = mpsc::channel::<()>();
    let mut watched = Ok(());
    let outcomes: Vec<Result<Vec<Tally>, Stopped>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        for (number, mut lanes) in workers.into_iter().enumerate() {
            let worker = Worker {
                schedule,
                gate: &gate,
                crew,
                cpu: cpus.get(number % cpus.len().max(1)).copied(),
            };
            let nr_done = (number == 0).then_some(&nr_done);
            let working = working.clone();
            let run = move || {
                let _working = working;
                let mut tallies = Vec::with_capacity(schedule.nr_steps());
                worker.work(&mut lanes, |_, tally| {
                    tallies.push(tally);
                    if let Some(nr_done) = nr_done {
                        // ORDERING: Relaxed; a hint for the progress bar.
                        nr_done.fetch_add(1, Ordering::Relaxed);
                    }
                })?;
                Ok(tallies)
            };
            let thread = thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn_scoped(scope, run);
            if thread.is_err() {
                // The others would wait for it.
                gate.abandon();
            }
            threads.push(thread);
        }
        drop(working);
        while let Err(RecvTimeoutError::Timeout) = through.recv_timeout(LOOK) {
            // ORDERING: Relaxed; a hint for the progress bar.
            watched = watch(schedule.step_duration() * nr_done.load(Ordering::Relaxed));
            if watched.is_err() {
                gate.abandon();
                break;
            }
        }
        threads
            .into_iter()
            .map(|thread| match thread.map(|thread| thread.join()) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => Err(Stopped::Failed(format!("cannot start a thread: {error}"))),
            })
            .collect()
    });
    watched?;
    let tallies = all_or_reason(outcomes)?;
    Ok(Speeds::new(schedule, &tallies))
}

/// The tallies of all workers, or why the first that failed did so.
fn all_or_reason(outcomes: Vec<Result<Vec<Tally>, Stopped>>) -> Result<Vec<Vec<Tally>>, Failure> {
    let mut tallies = Vec::with_capacity(outcomes.len());
    let mut abandoned = false;
    for outcome in outcomes {
        match outcome {
            Ok(worker) => tallies.push(worker),
            Err(Stopped::Failed(reason)) => return Err(Failure::Run(reason)),
            Err(Stopped::Abandoned) => abandoned = true,
        }
    }
    if abandoned {
        return Err(Failure::Run("a worker stopped without a reason".to_owned()));
    }
    Ok(tallies)
}

#[cfg(test)]
mod tests {
    use super::super::lane::{Op, Timed};
    use super::*;

    struct Nop;

    impl Op for Nop {
        fn batch(&mut self, times: u32) -> Result<(), String> {
            for n in 0..times {
                std::hint::black_box(n);
            }
            Ok(())
        }
    }

    struct Bad;

    impl Op for Bad {
        fn batch(&mut self, _: u32) -> Result<(), String> {
            Err("bad luck".to_owned())
        }
    }

    fn schedule() -> Schedule {
        Schedule::new(1, 3, Duration::from_millis(6))
    }

    fn lane(op: impl Op + 'static) -> Vec<Box<dyn Lane>> {
        vec![Box::new(Timed::new(op))]
    }

    #[test]
    fn every_worker_counts_in_every_round() {
        let crew = vec![lane(Nop), lane(Nop), lane(Nop)];
        let speeds = run_threads(&schedule(), &[], crew, |_| Ok(())).unwrap();
        assert_eq!(speeds.of_lanes.len(), 1);
        assert_eq!(speeds.of_lanes[0].len(), 3);
        assert!(speeds.of_lanes[0].iter().all(|&speed| speed > 0.0));
    }

    #[test]
    fn one_workers_failure_ends_the_run_of_all() {
        let crew = vec![lane(Nop), lane(Bad), lane(Nop)];
        let failure = run_threads(&schedule(), &[0], crew, |_| Ok(())).unwrap_err();
        assert!(matches!(failure, Failure::Run(reason) if reason == "bad luck"));
    }
}
