//! The baseline engine, which makes the backend's calls on the submitting thread.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::group_lane::GroupLane;
use super::interface::{Engine, Lane, Limits, MOST_SPANS};
use super::job::Job;
use crate::backend::Sealed;

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
        Box::new(GroupLane::new(&Now))
    }
}

/// Like [`SyncEngine`], but performs a request at once, even within a completion.
#[derive(Debug)]
struct Now;

impl Sealed for Now {}

impl Engine for Now {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn limits(&self) -> Limits {
        SyncEngine.limits()
    }

    fn submit(&self, job: Job) {
        job.perform();
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        Box::new(GroupLane::new(self))
    }
}
