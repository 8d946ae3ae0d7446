//! Rings that wait for a thread to use them, and threads for what is not for rings.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::ring::{Ring, Use};
use crate::backend::Group;
use crate::engine::interface::Engine;
use crate::engine::job::Job;
use crate::engine::queue::OfStorage as _;
use crate::engine::worker::WorkerEngine;
use crate::file::Owner;

/// Jobs of a lane that are in its ring at a time.
pub(super) const LANE_DEPTH: u32 = 128;

/// So many rings are kept for the next threads.
const MOST_KEPT: usize = 16;

/// What lanes and the thread of the engine share.
#[derive(Debug)]
pub(super) struct Pool {
    /// The process that has the rings.
    pub(super) owner: Owner,
    pub(super) workers: WorkerEngine,
    /// Rings of which nobody has any job.
    rings: Mutex<Vec<Ring>>,
}

impl Pool {
    pub(super) fn new(owner: Owner, workers: WorkerEngine) -> Self {
        Self {
            owner,
            workers,
            rings: Mutex::default(),
        }
    }

    /// A ring for a lane. None if the system has no more: descriptors and memory may be short.
    pub(super) fn ring(&self) -> Option<Ring> {
        let kept = self
            .rings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        kept.or_else(|| Ring::new(LANE_DEPTH, Use::Any).ok())
    }

    /// Takes a ring back, which has no jobs.
    pub(super) fn keep(&self, ring: Ring) {
        if ring.is_given_up() || ring.nr_in_flight() != 0 {
            return;
        }
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        if rings.len() < MOST_KEPT {
            rings.push(ring);
        }
    }

    /// Has the storage's own calls made for `job`, for somebody who waits for `group`, if anybody does.
    pub(super) fn call(&self, mut job: Job, group: Option<&Arc<Group>>) {
        if let Some(group) = group {
            job.join(group);
        }
        self.workers.submit(job);
    }

    /// Has `job` completed by a thread that may wait.
    pub(super) fn complete(&self, job: Job, result: io::Result<usize>) {
        let key = job.key();
        self.workers
            .call(key, Box::new(move || job.complete(result)));
    }

    /// Lets go of the rings without touching them: they are another process's.
    pub(super) fn forget(&self) {
        // The lock may be locked for good there, but nobody waits for it: it is tried.
        if let Ok(mut rings) = self.rings.try_lock() {
            rings.drain(..).for_each(Ring::forget);
        }
    }
}
