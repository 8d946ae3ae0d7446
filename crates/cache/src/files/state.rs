//! State of a cache.

use std::sync::{Arc, Weak};

use pagewell_frame::PoolOwner;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Mutex;

use crate::base::engines::Engines;
use crate::files::flushers::Flushers;
use crate::files::registry::Registry;
use crate::files::share::Share;
use crate::mapping::shared::Shared;
use crate::supply::parts::Supply;

/// State of a cache: what its files share, and the files.
#[derive(Debug)]
pub(crate) struct Files<S: RefScheme> {
    /// Each open file keeps this. So no frame is pinned when the owner of the frames is dropped.
    pub(crate) shared: PoolOwner<Shared<S>>,
    pub(crate) registry: Registry<S>,
    /// Engines end with the last cache and file handle; a pin that borrows nothing keeps frames,
    /// and no ring, thread or descriptor.
    pub(crate) engines: Arc<Engines>,
    pub(crate) flushers: Flushers<Self>,
    /// Strong references to files whose last handle, or last strong reference, was dropped in a
    /// callback: a flusher drops them.
    pub(super) left: Mutex<Vec<Share<S>>>,
    /// Companion that uses the cache's frames too; all callers share one.
    pub(crate) companion: Mutex<Weak<Companion>>,
}

impl<S: RefScheme> Files<S> {
    /// Returns the cache's frames, and their limits.
    pub(crate) fn supply(&self) -> &Supply<S> {
        &self.shared.supply
    }
}

#[cfg(not(loom))]
impl<S: RefScheme> Drop for Files<S> {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may have held the lock.
        if self.shared.home.is_here() {
            self.shared.pressure.calls.end();
        }
    }
}

/// Any value of a higher crate, which knows its type.
pub(crate) type Companion = dyn std::any::Any + Send + Sync;
