//! Setting a cache up.

use std::sync::{Arc, Weak};

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Mutex;

use crate::files::background::{Background, Rounds};
use crate::files::registry::Registry;
use crate::files::rounds;
use crate::files::state::Files;
use crate::mapping::shared::Shared;
use crate::supply::owners::LeafOwners;

/// A cache of the frames of `pool`, without a file.
pub(crate) fn files_of<S: RefScheme>(pool: FramePool<S>) -> Arc<Files<S>> {
    let shared = Arc::new(Shared::new(pool));
    #[cfg(not(loom))]
    let round = rounds::write_back;
    // In a model there is no thread.
    #[cfg(loom)]
    let round = rounds::close_left;
    let files = Arc::new(Files {
        registry: Registry::new(),
        background: Background::new(Arc::clone(&shared.pressure.bell), round),
        rounds: Rounds::default(),
        left: Mutex::new(Vec::new()),
        companion: Mutex::new(Weak::<()>::new()),
        shared,
    });
    let weak = Arc::downgrade(&files);
    let owners: Weak<dyn LeafOwners<S>> = weak;
    // Nobody else has the cache yet, so it is the first.
    let _ = files.shared.supply.owners.set(owners);
    files
}
