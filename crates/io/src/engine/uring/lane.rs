//! Submission context with its own ring, which the waiting thread enters itself.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use pagewell_sync::process::ProcessId;
use pagewell_sync::{Mutex, lock};

use super::ring::{Outcome, Ring, Use};
use crate::backend::{Group, Panic, Sealed};
use crate::engine::interface::{Engine, Lane};
use crate::engine::job::{Job, Steps as _};
use crate::engine::worker::WorkerEngine;
use crate::file::check_process;

/// Submission context of io_uring. Its drop leaves no request in flight: a later completion would
/// interrupt the thread, and the thread's exit would cancel the request.
#[derive(Debug)]
pub(super) struct UringLane<'p> {
    pool: &'p Pool,
    ring: Option<Ring>,
    staged: VecDeque<Job>,
    /// Counts completions of the jobs that were passed to threads.
    group: Arc<Group>,
    nr_handed: usize,
    /// Number of these jobs that `wait` has counted as completed.
    nr_told: usize,
    panic: Option<Panic>,
    /// The kernel associates requests with the thread that submitted them.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl<'p> UringLane<'p> {
    pub(super) fn new(pool: &'p Pool) -> Self {
        Self {
            pool,
            ring: None,
            staged: VecDeque::new(),
            group: Arc::default(),
            nr_handed: 0,
            nr_told: 0,
            panic: None,
            stays_on_its_thread: PhantomData,
        }
    }

    /// Completes the job or passes it to a thread. Returns the number of completed jobs, 0 or 1.
    fn settle(&mut self, outcome: Outcome) -> usize {
        match outcome {
            Outcome::Done(job, result) => {
                let panic = job.complete_quietly(result);
                self.panic = self.panic.take().or(panic);
                1
            }
            Outcome::Calls(mut job) => {
                self.nr_handed += 1;
                job.join(&self.group);
                self.pool.workers.submit(job);
                0
            }
            Outcome::Other => 0,
        }
    }

    fn settle_all(&mut self, outcomes: Vec<Outcome>) -> usize {
        outcomes
            .into_iter()
            .map(|outcome| self.settle(outcome))
            .sum()
    }

    /// Performs the only job in flight by a blocking call. Returns `None` if there are several
    /// jobs, if the job is already started, or if its backend completes requests later.
    fn perform_alone(&mut self) -> Option<usize> {
        if self.staged.len() != 1 || self.nr_in_flight() != 1 {
            return None;
        }
        let job = self.staged.pop_front()?;
        match job.perform_here() {
            Ok(panic) => {
                self.panic = self.panic.take().or(panic);
                Some(1)
            }
            Err(job) => {
                self.staged.push_back(job);
                None
            }
        }
    }

    /// Starts submitted jobs as far as the ring has room. Returns the number of completed jobs.
    fn begin(&mut self) -> usize {
        if self.staged.is_empty() {
            return 0;
        }
        if self.ring.is_none() {
            self.ring = self.pool.ring();
        }
        let Some(ring) = &mut self.ring else {
            for job in mem::take(&mut self.staged) {
                self.settle(Outcome::Calls(job));
            }
            return 0;
        };
        let mut room = ring.room();
        let mut outcomes = Vec::new();
        while room != 0
            && let Some(job) = self.staged.pop_front()
        {
            match ring.begin(job) {
                Some(outcome) => outcomes.push(outcome),
                None => room -= 1,
            }
        }
        self.settle_all(outcomes)
    }

    /// Waits in the ring for `nr` completions, and reaps all. Returns the number of completed jobs.
    fn enter(&mut self, nr: usize) -> usize {
        let Some(ring) = &mut self.ring else {
            return 0;
        };
        let mut outcomes = Vec::new();
        let nr = nr.min(ring.nr_in_flight());
        if ring.enter(nr).is_err() {
            ring.give_up(|outcome| outcomes.push(outcome));
            ring.drain(|outcome| outcomes.push(outcome));
        }
        ring.reap(|outcome| outcomes.push(outcome));
        self.settle_all(outcomes)
    }

    /// Records that threads completed `nr_done` jobs in all. Returns how many are newly completed.
    fn look_at_handed(&mut self, nr_done: usize) -> usize {
        let nr_new = nr_done - self.nr_told;
        self.nr_told = nr_done;
        self.panic = self.panic.take().or_else(|| self.group.take_panic());
        nr_new
    }

    /// Like `GroupLane::leave_to_parent`, for all jobs that were not started.
    fn leave_to_parent(&mut self) -> Option<usize> {
        check_process(self.pool.process).err()?;
        if let Some(ring) = self.ring.take() {
            ring.forget();
        }
        self.nr_told = self.nr_handed;
        let nr = self.staged.len();
        for job in mem::take(&mut self.staged) {
            let result = check_process(self.pool.process).map(|()| 0);
            let panic = job.complete_quietly(result);
            self.panic = self.panic.take().or(panic);
        }
        Some(nr)
    }

    fn wait_quietly(&mut self, nr: usize) -> usize {
        if let Some(nr_failed) = self.leave_to_parent() {
            return nr_failed;
        }
        let nr = nr.min(self.nr_in_flight());
        if nr != 0
            && let Some(nr_done) = self.perform_alone()
        {
            return nr_done;
        }
        let mut nr_done = 0;
        loop {
            nr_done += self.begin();
            if self.nr_handed != self.nr_told {
                nr_done += self.look_at_handed(self.group.nr_done());
            }
            let missing = nr.saturating_sub(nr_done);
            let in_ring = self.ring.as_ref().map_or(0, Ring::nr_in_flight);
            if in_ring != 0 {
                nr_done += self.enter(missing);
            } else if missing != 0 && self.staged.is_empty() {
                // The threads have all remaining jobs.
                let nr_to_come = (self.nr_told + missing).min(self.nr_handed);
                let nr_now = self.group.wait_for(nr_to_come);
                nr_done += self.look_at_handed(nr_now);
            }
            if nr_done >= nr && (self.staged.is_empty() || nr != 0) {
                return nr_done;
            }
            if nr == 0 && self.ring.as_mut().is_none_or(|ring| ring.room() == 0) {
                return nr_done;
            }
        }
    }
}

impl Sealed for UringLane<'_> {}

impl Lane for UringLane<'_> {
    fn submit(&mut self, job: Job) {
        self.staged.push_back(job);
    }

    fn wait(&mut self, nr: usize) -> usize {
        let nr_done = self.wait_quietly(nr);
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
        nr_done
    }

    fn nr_in_flight(&self) -> usize {
        let in_ring = self.ring.as_ref().map_or(0, Ring::nr_in_flight);
        self.staged.len() + in_ring + self.nr_handed - self.nr_told
    }
}

impl Drop for UringLane<'_> {
    fn drop(&mut self) {
        self.wait_quietly(self.nr_in_flight());
        // Leak the reported panic, whose drop could panic again.
        mem::forget(self.panic.take());
        if let Some(ring) = self.ring.take() {
            self.pool.keep(ring);
        }
    }
}

/// Maximum number of jobs in the ring of a submission context.
pub(super) const LANE_DEPTH: u32 = 128;

/// Maximum number of unused rings.
const MOST_KEPT: usize = 16;

/// Unused rings, and threads for requests that no ring can perform.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) process: ProcessId,
    pub(super) workers: WorkerEngine,
    rings: Mutex<Vec<Ring>>,
}

impl Pool {
    pub(super) fn new(process: ProcessId, workers: WorkerEngine) -> Self {
        Self {
            process,
            workers,
            rings: Mutex::new(Vec::new()),
        }
    }

    /// Returns an unused or a new ring, or `None` if the system refuses a new one.
    pub(super) fn ring(&self) -> Option<Ring> {
        let kept = lock(&self.rings).pop();
        kept.or_else(|| Ring::new(LANE_DEPTH, Use::Any).ok())
    }

    /// Keeps a usable ring without jobs for reuse, if fewer than [`MOST_KEPT`] are kept.
    pub(super) fn keep(&self, ring: Ring) {
        if ring.is_given_up() || ring.nr_in_flight() != 0 {
            return;
        }
        let mut rings = lock(&self.rings);
        if rings.len() < MOST_KEPT {
            rings.push(ring);
        }
    }

    /// Completes `job` on a thread that may block.
    pub(super) fn complete(&self, job: Job, result: io::Result<usize>) {
        let key = job.key();
        self.workers
            .call(key, Box::new(move || job.complete(result)));
    }

    /// Leaks the rings without accessing them, in a child of `fork`.
    pub(super) fn forget(&self) {
        // The lock may never be released in a child.
        if let Ok(mut rings) = self.rings.try_lock() {
            rings.drain(..).for_each(Ring::forget);
        }
    }
}
