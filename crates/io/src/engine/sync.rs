//! The baseline engine, which makes the backend's calls on the submitting thread, and a submission
//! context for engines without a ring.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use pagewell_sync::process::ProcessId;

use super::interface::{Engine, Lane, Limits, MOST_SPANS};
use super::job::{Job, Steps as _};
use crate::backend::{Group, Sealed};
use crate::file::check_process;

/// Engine without threads: `submit` performs a request before it returns, or passes it to a
/// deferred backend. A request that a completion submits is performed after that completion, so
/// that chains of requests do not deepen the stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncEngine;

impl SyncEngine {
    /// Creates the engine, which has no state.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

thread_local! {
    /// Jobs submitted while this thread is performing a request; `None` at other times.
    static LATER: RefCell<Option<VecDeque<Job>>> = const { RefCell::new(None) };
}

impl Sealed for SyncEngine {}

impl Engine for SyncEngine {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn limits(&self) -> Limits {
        Limits {
            depth: 1,
            per_storage: 1,
            threads: 0,
            spans: MOST_SPANS,
        }
    }

    fn submit(&self, job: Job) {
        let first = LATER.with_borrow_mut(|later| match later {
            Some(later) => {
                later.push_back(job);
                None
            }
            None => {
                *later = Some(VecDeque::new());
                Some(job)
            }
        });
        let mut next = first;
        while let Some(job) = next {
            // `perform` never unwinds: it catches panics of backends and completions.
            job.perform();
            next = LATER.with_borrow_mut(|later| {
                let job = later.as_mut().and_then(VecDeque::pop_front);
                if job.is_none() {
                    *later = None;
                }
                job
            });
        }
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        // At once, even within a completion.
        Box::new(GroupLane::new(Job::perform))
    }
}

/// Submission context of the `sync` and `worker` engines, which counts completions.
pub(super) struct GroupLane<S: Fn(Job)> {
    submit: S,
    process: ProcessId,
    group: Arc<Group>,
    /// The last submitted job, which the engine does not have yet. If the thread waits for all its
    /// jobs, it performs this one itself, so a single job needs no other thread.
    last: Option<Job>,
    nr_submitted: usize,
    /// Number of completions that `wait` has returned.
    nr_told: usize,
}

impl<S: Fn(Job)> GroupLane<S> {
    pub(super) fn new(submit: S) -> Self {
        Self {
            submit,
            process: ProcessId::current(),
            group: Arc::default(),
            last: None,
            nr_submitted: 0,
            nr_told: 0,
        }
    }

    /// In a child forked since the creation, fails the job in `last`, and ignores the requests in
    /// flight, which are the parent's. Returns the number of failed jobs, or `None` in the parent.
    fn leave_to_parent(&mut self) -> Option<usize> {
        let forked = check_process(self.process).err()?;
        self.nr_told = self.nr_submitted;
        let last = self.last.take();
        Some(last.map_or(0, |last| {
            last.complete(Err(forked));
            1
        }))
    }
}

impl<S: Fn(Job)> Sealed for GroupLane<S> {}

impl<S: Fn(Job)> Lane for GroupLane<S> {
    fn submit(&mut self, mut job: Job) {
        job.join(&self.group);
        self.nr_submitted += 1;
        if let Some(before) = self.last.replace(job) {
            (self.submit)(before);
        }
    }

    fn wait(&mut self, nr: usize) -> usize {
        if let Some(nr_failed) = self.leave_to_parent() {
            return nr_failed;
        }
        let waits_for_all = nr != 0 && nr >= self.nr_in_flight();
        match self.last.take() {
            Some(last) if waits_for_all => last.perform(),
            Some(last) => (self.submit)(last),
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

impl<S: Fn(Job)> Drop for GroupLane<S> {
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
