//! What the files of a cache share.

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::base::home::Home;
use crate::dirty::pressure::Pressure;
use crate::supply::parts::Supply;

/// What the files of a cache share: each room below has its part.
#[derive(Debug)]
pub(crate) struct Shared<S: RefScheme> {
    pub(crate) home: Home,
    pub(crate) supply: Supply<S>,
    pub(crate) pressure: Pressure,
    next_holder: AtomicU64,
}

impl<S: RefScheme> Shared<S> {
    pub(crate) fn new(pool: FramePool<S>) -> Self {
        let nr_frames = pool.nr_frames();
        Self {
            home: Home::here(),
            supply: Supply::new(pool),
            pressure: Pressure::new(nr_frames),
            next_holder: AtomicU64::new(0),
        }
    }

    /// A number for who locks a page.
    pub(crate) fn next_holder(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_holder.fetch_add(1, Ordering::Relaxed)
    }
}
