use std::sync::{Arc, Weak};

use pagewell_frame::{FramePool, PoolOwner};
use pagewell_io::pools::Engines;
use pagewell_sync::Mutex;

use crate::dirty::pressure::Limits;
use crate::files::flushers::Flushers;
use crate::files::registry::Registry;
use crate::files::serve;
use crate::files::state::Files;
use crate::mapping::shared::Shared;
use crate::supply::owners::LeafOwners;
use crate::supply::policy::Eviction;

/// Uses the default limits, and CLOCK, by which the order of the frames determines evictions.
#[cfg(any(test, loom))]
pub(crate) fn files_of(pool: FramePool) -> Arc<Files> {
    let limits = Limits::of_cache(pool.nr_frames());
    files_with(pool, limits, Eviction::Clock, Engines::default())
}

pub(crate) fn files_with(
    pool: FramePool,
    limits: Limits,
    eviction: Eviction,
    engines: Engines,
) -> Arc<Files> {
    let engines = Arc::new(engines);
    let shared = Shared::new(pool, limits, eviction, &engines);
    let shared = PoolOwner::new(pagewell_sync::Arc::new(shared));
    let calls = Arc::clone(&shared.pressure.calls);
    let files = Arc::new(Files {
        registry: Registry::new(),
        engines,
        flushers: Flushers::new(calls, serve::watch, serve::serve),
        left: Mutex::new(Vec::new()),
        companion: Mutex::new(Weak::<()>::new()),
        shared,
    });
    let weak = Arc::downgrade(&files);
    let owners: Weak<dyn LeafOwners> = weak;
    // No other thread has access to the cache yet.
    let _ = files.shared.supply.owners.set(owners);
    files
}
