//! Crews: the workers that run the engines of a cell in turns.
//!
//! 1. Each worker has one *lane* for each engine: the engine's operation, ready
//!    to be repeated.
//! 2. All workers follow the same [`Schedule`]: in each round, each lane for one
//!    slice of time. The order of the lanes changes from round to round.
//! 3. Before each slice the workers meet at a [`Gate`], which tells them all the
//!    same start. A slice begins with a warm-up that is not counted.
//! 4. A worker that fails, or dies, abandons the gate, so that nobody waits for
//!    it.
//!
//! Nothing else happens between slices: the coordinator only watches, so that it
//! takes no processor from the workers.

mod gate;
mod lane;
mod processes;
mod schedule;
mod shared;
mod staged;
mod threads;

pub(super) use self::lane::{Lane, Op, Timed};
pub(super) use self::processes::{run_processes, work_as_process};
pub(super) use self::schedule::Schedule;
pub(super) use self::shared::Padded;
pub(super) use self::staged::{Staged, StagedOp};
pub(super) use self::threads::run_threads;

use self::gate::{Abandoned, Gate};
use self::lane::{Span, Tally};
use crate::machine;

/// Operations per second, summed over the workers: one figure for each lane and
/// round.
#[derive(Debug)]
pub(super) struct Speeds {
    /// `[lane][round]`
    pub(super) of_lanes: Vec<Vec<f64>>,
}

impl Speeds {
    /// `tallies` are those of each worker, in the order of the schedule's steps.
    fn new(schedule: &Schedule, tallies: &[Vec<Tally>]) -> Speeds {
        let mut of_lanes = vec![vec![0.0; schedule.rounds as usize]; schedule.lanes as usize];
        for worker in tallies {
            for (step, tally) in schedule.steps().zip(worker) {
                of_lanes[step.lane as usize][step.round as usize] += tally.per_second();
            }
        }
        Speeds { of_lanes }
    }
}

/// Why a worker stopped before the end.
#[derive(Debug)]
enum Stopped {
    /// An operation went wrong here.
    Failed(String),
    /// Another worker has stopped.
    Abandoned,
}

impl From<Abandoned> for Stopped {
    fn from(_: Abandoned) -> Stopped {
        Stopped::Abandoned
    }
}

/// What a worker knows of its crew.
struct Worker<'a> {
    schedule: &'a Schedule,
    gate: &'a Gate,
    crew: u32,
    cpu: Option<usize>,
}

impl Worker<'_> {
    /// Runs the whole schedule and hands each tally to `record`.
    fn work(
        &self,
        lanes: &mut [Box<dyn Lane + '_>],
        mut record: impl FnMut(usize, Tally),
    ) -> Result<(), Stopped> {
        // Leaves the gate open for the others, however this function ends.
        let watch = self.gate.watch();
        if let Some(cpu) = self.cpu {
            // Unpinned workers are slower or noisier, but no less right.
            machine::pin_current_thread(cpu);
        }
        for (number, step) in self.schedule.steps().enumerate() {
            let span = Span {
                start_ns: self.gate.meet(self.crew)?,
                warm_ns: self.schedule.warm_ns,
                slice_ns: self.schedule.slice_ns,
            };
            let lane = &mut lanes[step.lane as usize];
            record(number, lane.run(&span).map_err(Stopped::Failed)?);
        }
        watch.all_is_well();
        Ok(())
    }
}
