//! Unused rings, and threads for requests that no ring can perform.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pagewell_sync::process::ProcessId;

use super::ring::{Ring, Use};
use crate::backend::Group;
use crate::engine::interface::Engine;
use crate::engine::job::{Job, Steps as _};
use crate::engine::queue::OfStorage as _;
use crate::engine::worker::WorkerEngine;

/// Maximum number of jobs in the ring of a submission context.
pub(super) const LANE_DEPTH: u32 = 128;

/// Maximum number of unused rings.
const MOST_KEPT: usize = 16;

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
            rings: Mutex::default(),
        }
    }

    /// Returns an unused or a new ring, or `None` if the system refuses a new one.
    pub(super) fn ring(&self) -> Option<Ring> {
        let kept = self
            .rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        kept.or_else(|| Ring::new(LANE_DEPTH, Use::Any).ok())
    }

    /// Keeps a usable ring without jobs for reuse, if fewer than [`MOST_KEPT`] are kept.
    pub(super) fn keep(&self, ring: Ring) {
        if ring.is_given_up() || ring.nr_in_flight() != 0 {
            return;
        }
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if rings.len() < MOST_KEPT {
            rings.push(ring);
        }
    }

    /// Passes `job` to a worker, which performs it by the backend's calls and counts it in `group`.
    pub(super) fn call(&self, mut job: Job, group: Option<&Arc<Group>>) {
        if let Some(group) = group {
            job.join(group);
        }
        self.workers.submit(job);
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
