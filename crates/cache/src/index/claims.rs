//! What claims need of the cache.

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;

/// What claims need of the cache: the frames that slots name, the places to wait, and where versions begin.
#[derive(Debug)]
pub(crate) struct Claims<S: RefScheme> {
    pub(crate) pool: FramePool<S>,
    pub(crate) waits: WaitTable,
    version_floor: AtomicU64,
}

impl<S: RefScheme> Claims<S> {
    pub(crate) fn new(pool: FramePool<S>) -> Self {
        Self {
            pool,
            waits: WaitTable::new(),
            version_floor: AtomicU64::new(0),
        }
    }

    /// A version above all that slots of leaves that were taken out of use have had.
    pub(crate) fn version_floor(&self) -> u64 {
        // ORDERING: Relaxed; what matters is a leaf's own last life, and whoever makes the leaf has
        // acquired the root entry that was released after the floor was raised for it.
        self.version_floor.load(Ordering::Relaxed)
    }

    /// Raises the floor to `version` at least.
    pub(crate) fn raise_version_floor(&self, version: u64) {
        // ORDERING: Relaxed; as above.
        self.version_floor.fetch_max(version, Ordering::Relaxed);
    }
}
