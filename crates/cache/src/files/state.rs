use std::sync::{Arc, Weak};

use pagewell_frame::PoolOwner;
use pagewell_io::pools::Engines;
use pagewell_sync::Mutex;

use crate::files::flushers::Flushers;
use crate::files::registry::{Registry, Share};
use crate::mapping::shared::Shared;
use crate::mapping::visitor::Visitor;
use crate::supply::parts::Supply;

#[derive(Debug)]
pub(crate) struct Files {
    /// State that the files share, including the frames. Each open file keeps this `Files` value
    /// alive, so no pin that borrows from a file exists when the owner of the frames is dropped.
    pub(crate) shared: PoolOwner<Shared>,
    pub(crate) registry: Registry,
    /// The engines end with the last cache handle, file handle or
    /// [`CacheFrames`](crate::CacheFrames). An owned pin keeps no ring, thread or descriptor.
    pub(crate) engines: Arc<Engines>,
    pub(crate) flushers: Flushers<Self>,
    /// Strong references to files whose last handle or strong reference was dropped in a callback
    /// or a codec, to be dropped by a flusher or in [`quiesce`](crate::Cache::quiesce).
    pub(super) left: Mutex<Vec<Share>>,
    pub(crate) companion: Mutex<Weak<Companion>>,
}

impl Files {
    pub(crate) fn supply(&self) -> &Supply {
        &self.shared.supply
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // In a fork, a thread of the parent may have held the lock, which is then never released.
        if self.shared.home.is_here() {
            self.shared.pressure.calls.end();
        }
    }
}

/// Value of any type, which [`companion_or_else`](crate::companion_or_else) downcasts.
pub(crate) type Companion = dyn std::any::Any + Send + Sync;

/// Returns a weak reference ([`super::opened`]), or `None` if file `number` has no strong one. The
/// caller may hold claims and locks, but not the registry lock.
pub(crate) fn visit(files: &Files, number: u64) -> Option<Visitor> {
    let (mapping, users) = files.registry.registered(number)?;
    Visitor::enter(&files.shared, &users, || mapping.upgrade())
}
