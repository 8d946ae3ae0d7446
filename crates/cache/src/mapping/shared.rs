//! Part of the cache that its files share.

use std::mem::offset_of;
use std::sync::Arc;

use pagewell_frame::{FramePool, HasPool};
use pagewell_io::pools::Engines;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{LINES, Padded, is_apart};

use crate::base::home::Home;
use crate::dirty::pressure::{Limits, Pressure};
use crate::supply::parts::Supply;
use crate::supply::policy::Eviction;

/// Owned pins ([`OwnedPageGuard`](crate::OwnedPageGuard)) keep only this part, with the pool.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) home: Home,
    pub(crate) supply: Supply,
    pub(crate) pressure: Pressure,
    next_holder: Padded<AtomicU64>,
}

// Pins and writes load `home`, and writes to a clean page load the limits.
const _: () = {
    type H = Shared;
    let (home, len) = (offset_of!(H, home), size_of::<Home>());
    assert!(is_apart::<H>(home, len, offset_of!(H, next_holder)));
    assert!(
        offset_of!(H, supply).is_multiple_of(LINES)
            && offset_of!(H, pressure).is_multiple_of(LINES)
    );
};

fn waits_of(engines: &Arc<Engines>) -> WaitTable {
    WaitTable::with_courier(Arc::new(engines.waking().clone()))
}

impl HasPool for Shared {
    #[inline(always)]
    fn pool(&self) -> &FramePool {
        self.supply.pool()
    }

    #[inline(always)]
    fn is_in_child(&self) -> bool {
        !self.home.is_here()
    }
}

impl Shared {
    pub(crate) fn new(
        pool: FramePool,
        limits: Limits,
        eviction: Eviction,
        engines: &Arc<Engines>,
    ) -> Self {
        Self {
            home: Home::here(),
            supply: Supply::new(pool, eviction, waits_of(engines)),
            pressure: Pressure::new(limits),
            next_holder: Padded(AtomicU64::new(0)),
        }
    }

    /// Returns a new number, for a guard that locks a page. The 2^61 numbers are never used up.
    pub(crate) fn next_holder(&self) -> u64 {
        // ORDERING: Relaxed; only uniqueness matters, and atomicity gives it.
        self.next_holder.fetch_add(1, Ordering::Relaxed)
    }
}
