//! Submission context of the `sync` and `worker` engines, which counts completions.

use std::panic::resume_unwind;
use std::sync::Arc;

use pagewell_sync::process::ProcessId;

use super::interface::{Engine, Lane};
use super::job::{Job, Steps as _};
use crate::backend::{Group, Sealed};
use crate::file::check_process;

#[derive(Debug)]
pub(super) struct GroupLane<'e> {
    engine: &'e dyn Engine,
    process: ProcessId,
    group: Arc<Group>,
    /// The last submitted job, which the engine does not have yet. If the thread waits for all its
    /// jobs, it performs this one itself, so a single job needs no other thread.
    last: Option<Job>,
    nr_submitted: usize,
    /// Number of completions that `wait` has returned.
    nr_told: usize,
}

impl<'e> GroupLane<'e> {
    pub(super) fn new(engine: &'e dyn Engine) -> Self {
        Self {
            engine,
            process: ProcessId::current(),
            group: Arc::default(),
            last: None,
            nr_submitted: 0,
            nr_told: 0,
        }
    }
}

impl GroupLane<'_> {
    /// In a child forked since the creation, fails the job in `last`, and ignores the requests in
    /// flight, which are the parent's. Returns the number of failed jobs, or `None` in the parent.
    fn leave_to_parent(&mut self) -> Option<usize> {
        check_process(self.process).err()?;
        let nr = usize::from(self.last.is_some());
        if let Some(last) = self.last.take() {
            last.complete(check_process(self.process).map(|()| 0));
        }
        self.nr_told = self.nr_submitted;
        Some(nr)
    }
}

impl Sealed for GroupLane<'_> {}

impl Lane for GroupLane<'_> {
    fn submit(&mut self, mut job: Job) {
        job.join(&self.group);
        self.nr_submitted += 1;
        if let Some(before) = self.last.replace(job) {
            self.engine.submit(before);
        }
    }

    fn wait(&mut self, nr: usize) -> usize {
        if let Some(nr_failed) = self.leave_to_parent() {
            return nr_failed;
        }
        let waits_for_all = nr != 0 && nr >= self.nr_in_flight();
        match self.last.take() {
            Some(last) if waits_for_all => last.perform(),
            Some(last) => self.engine.submit(last),
            None => {}
        }
        let nr = nr.min(self.nr_in_flight());
        let nr_done = self.group.wait_for(self.nr_told + nr);
        let nr_new = nr_done - self.nr_told;
        self.nr_told = nr_done;
        if let Some(panic) = self.group.take_panic() {
            resume_unwind(panic);
        }
        nr_new
    }

    fn nr_in_flight(&self) -> usize {
        self.nr_submitted - self.nr_told
    }
}

impl Drop for GroupLane<'_> {
    fn drop(&mut self) {
        if self.leave_to_parent().is_some() {
            return;
        }
        if let Some(last) = self.last.take() {
            last.perform();
        }
        self.group.wait_for(self.nr_submitted);
        // Leak the reported panic, whose drop could panic again.
        std::mem::forget(self.group.take_panic());
    }
}
