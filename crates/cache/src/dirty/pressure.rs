//! How many frames are not clean, in all files of a cache, and what is done about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::dirty::bell::Bell;

/// How long writers go on without asking a storage again that has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// What writers of all files push to: how much is not clean, who is to be woken, and when a storage has failed.
#[derive(Debug)]
pub(crate) struct Pressure {
    pub(crate) unclean: UncleanFrames,
    pub(crate) last_failure: LastFailure,
    /// Wakes the thread that writes back.
    pub(crate) bell: Arc<Bell>,
}

impl Pressure {
    /// For a cache of `nr_frames` frames.
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            unclean: UncleanFrames::new(nr_frames),
            last_failure: LastFailure::default(),
            bell: Arc::default(),
        }
    }

    /// Counts frames that are not clean any more.
    pub(crate) fn count_unclean(&self, nr_frames: usize) {
        if self.unclean.add(nr_frames) {
            self.bell.ring();
        }
    }
}

/// How many frames of a cache hold bytes that the storage is not known to have.
#[derive(Debug)]
pub(crate) struct UncleanFrames {
    nr: AtomicUsize,
    /// From here on writers write pages back themselves before they make more dirty.
    limit: usize,
    /// From here on the thread of the cache makes pages clean, so that writers do not come to the limit.
    high: usize,
}

impl UncleanFrames {
    /// For a cache of `nr_frames` frames: at most half of them.
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            nr: AtomicUsize::new(0),
            limit: (nr_frames / 2).max(1),
            high: (nr_frames / 4).max(1),
        }
    }

    /// Counts `nr` more; whether it is time that the thread of the cache makes pages clean. One caller is told so.
    #[must_use]
    pub(crate) fn add(&self, nr: usize) -> bool {
        // ORDERING: Relaxed, here and below; a number that limits, and guards nothing.
        let before = self.nr.fetch_add(nr, Ordering::Relaxed);
        before < self.high && before + nr >= self.high
    }

    pub(crate) fn sub(&self, nr: usize) {
        self.nr.fetch_sub(nr, Ordering::Relaxed);
    }

    pub(crate) fn nr(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.nr() >= self.limit
    }

    #[cfg(not(loom))]
    pub(crate) fn is_high(&self) -> bool {
        self.nr() >= self.high
    }
}

/// When the storage of some file has failed last while writers were throttled.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(Mutex<Option<Instant>>);

impl LastFailure {
    pub(crate) fn note(&self) {
        // A model has no time.
        if !cfg!(loom) {
            *lock(&self.0) = Some(Instant::now());
        }
    }

    pub(crate) fn is_recent(&self) -> bool {
        lock(&self.0).is_some_and(|at| at.elapsed() < PAUSE)
    }
}
