//! The parts of the cache that claims need.

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;

/// The parts of the cache that claims need: the frames that slots name, the places to wait, and the version that new leaves begin at.
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

    /// A version above all versions of slots in leaves that were taken out of use.
    pub(crate) fn version_floor(&self) -> u64 {
        // ORDERING: Relaxed; only a leaf's own last life matters, and the thread that makes the leaf has
        // acquired the root entry that was released after the floor was raised for it.
        self.version_floor.load(Ordering::Relaxed)
    }

    /// Raises the floor to `version` at least.
    pub(crate) fn raise_version_floor(&self, version: u64) {
        // ORDERING: Relaxed; as above.
        self.version_floor.fetch_max(version, Ordering::Relaxed);
    }
}
