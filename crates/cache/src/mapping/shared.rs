//! Part of the cache that its files share, and services of the cache for them.

use std::fmt;
use std::mem::offset_of;
use std::sync::Arc;

use pagewell_frame::{FramePool, HasPool, Order};
use pagewell_io::FileId;
use pagewell_io::pools::Engines;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{LINES, Padded, is_apart};

use crate::base::error::Error;
use crate::base::home::Home;
use crate::dirty::pressure::{Limits, Pressure};
use crate::supply::parts::Supply;
use crate::supply::queues::Eviction;

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
        let waits = WaitTable::with_courier(Arc::new(engines.waking().clone()));
        Self {
            home: Home::here(),
            supply: Supply::new(pool, eviction, waits),
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

/// Services of the whole cache that its files use.
pub(crate) trait Keeper: fmt::Debug + Send + Sync {
    fn engines(&self) -> &Arc<Engines>;

    /// Removes mapping `number`, of the file `id`, from the registry, after its backend was closed.
    /// Does nothing in a fork.
    fn forget(&self, id: FileId, number: u64);

    /// Passes a counted strong reference of file `number` to a flusher, which drops it, but first
    /// makes the file durable if no handle is left. Until the drop, the reference keeps the cache.
    fn take_share(self: Arc<Self>, number: u64);

    /// Waits until file `number`, and no other, is below its quota of frames that are not clean.
    /// The caller holds no lock of the file. While the cache's threads are paused
    /// ([`quiesce`](crate::Cache::quiesce)), the calling thread cleans the file itself. Returns
    /// [`Throttled`](crate::ErrorKind::Throttled), with the reason, if the file cannot be cleaned.
    fn throttle(&self, number: u64) -> Result<(), Error>;

    /// If `error` is the lack of a free block of `order`, waits until the cache's threads have
    /// cleaned pages of any file with background writeback. The caller holds no lock of any file.
    /// Returns any other error at once. If no page becomes clean, adds the first reason as source.
    fn make_room(&self, error: Error, order: Order) -> Result<(), Error>;
}
