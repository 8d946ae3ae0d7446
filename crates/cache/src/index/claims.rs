//! State of the cache that every claim uses.

use std::mem::offset_of;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_policy::Notes;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{Padded, is_apart};

use crate::index::lives::Lives;

#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) pool: FramePool,
    pub(crate) waits: WaitTable,
    /// Events for the eviction policy: filled and moved frames. The policy CLOCK needs none.
    pub(crate) notes: Notes,
    pub(crate) lives: Arc<Lives>,
    version_floor: Padded<AtomicU64>,
    #[cfg(test)]
    pub(crate) nr_claimed: std::sync::atomic::AtomicU64,
}

// Readers load `pool`; the end of a claim loads `waits`. Removals of leaves write `version_floor`,
// so it has cache lines of its own.
const _: () = {
    type C = Claims;
    let loaded = [
        (offset_of!(C, pool), size_of::<FramePool>()),
        (offset_of!(C, waits), size_of::<WaitTable>()),
        (offset_of!(C, notes), size_of::<Notes>()),
        (offset_of!(C, lives), size_of::<Arc<Lives>>()),
    ];
    let mut nr = 0;
    while nr < loaded.len() {
        let (start, len) = loaded[nr];
        assert!(is_apart::<C>(start, len, offset_of!(C, version_floor)));
        nr += 1;
    }
};

impl Claims {
    pub(crate) fn new(pool: FramePool, notes: Notes, waits: WaitTable) -> Self {
        Self {
            pool,
            waits,
            notes,
            lives: Arc::default(),
            version_floor: Padded(AtomicU64::new(0)),
            #[cfg(test)]
            nr_claimed: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Returns the minimum slot version: one above the versions of all slots in removed leaves.
    pub(crate) fn version_floor(&self) -> u64 {
        // ORDERING: Relaxed; only the last removal of the same leaf matters, which raised this
        // value before it released the root entry that the creating thread has acquired.
        self.version_floor.load(Ordering::Relaxed)
    }

    pub(crate) fn raise_version_floor(&self, version: u64) {
        // ORDERING: Relaxed; see `version_floor`.
        self.version_floor.fetch_max(version, Ordering::Relaxed);
    }
}
