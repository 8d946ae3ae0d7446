//! The parts of the cache that claims need.

use std::mem::offset_of;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_policy::Notes;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{Padded, is_apart};

use crate::index::lives::Lives;

/// The parts of the cache that claims need: the frames that slots name, the places to wait, the
/// notes on what was filled, the version that new leaves begin at, and how often versions have
/// started over.
#[derive(Debug)]
pub(crate) struct Claims<S: RefScheme> {
    pub(crate) pool: FramePool<S>,
    pub(crate) waits: WaitTable,
    /// What the eviction policy is to learn of frames that are filled. CLOCK needs none.
    pub(crate) notes: Notes,
    pub(crate) lives: Arc<Lives>,
    version_floor: Padded<AtomicU64>,
    /// How often a slot was claimed through its leaf, as evictions do.
    #[cfg(all(test, not(loom)))]
    pub(crate) nr_claimed: AtomicU64,
}

// Who has a page loads the pool's first lines, and who has changed a slot, where to wake; evictions of leaves write the floor.
const _: () = {
    type C = Claims<LockBit>;
    let floor = offset_of!(C, version_floor);
    assert!(is_apart::<C>(
        offset_of!(C, notes),
        size_of::<Notes>(),
        floor
    ));
    assert!(is_apart::<C>(
        offset_of!(C, lives),
        size_of::<Arc<Lives>>(),
        floor
    ));
    assert!(is_apart::<C>(
        offset_of!(C, pool),
        size_of::<FramePool<LockBit>>(),
        floor
    ));
    assert!(is_apart::<C>(
        offset_of!(C, waits),
        size_of::<WaitTable>(),
        floor
    ));
};

impl<S: RefScheme> Claims<S> {
    pub(crate) fn new(pool: FramePool<S>, notes: Notes, waits: WaitTable) -> Self {
        Self {
            pool,
            waits,
            notes,
            lives: Arc::default(),
            version_floor: Padded(AtomicU64::new(0)),
            #[cfg(all(test, not(loom)))]
            nr_claimed: AtomicU64::new(0),
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
