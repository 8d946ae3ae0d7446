//! Creation of a cache's [`Files`], callbacks of lower layers, and work of the cache's threads:
//! scans of the watcher, requests to flushers.

use std::sync::{Arc, Weak};

use pagewell_frame::{FramePool, Order, PoolOwner, UniqueFrame};
use pagewell_io::FileId;
use pagewell_io::pools::Engines;
use pagewell_sync::{Mutex, lock};

use crate::base::error::Error;
use crate::dirty::calls::Call;
use crate::dirty::pressure::Limits;
use crate::files::clean::{Cleaner, is_background, obstacle_of};
use crate::files::flushers::Flushers;
use crate::files::opened::Opened;
use crate::files::registry::{Registry, Share};
use crate::files::state::{Files, visit};
use crate::index::claim::Leaf;
use crate::mapping::shared::{Keeper, Shared};
use crate::supply::leaves::Leaves;
use crate::supply::parts::LeafOwners;
use crate::supply::queues::Eviction;

pub(super) fn watch(files: &Arc<Files>) {
    let pressure = &files.shared.pressure;
    for number in files.registry.numbers() {
        if let Some(mapping) = visit(files, number)
            && let Some(writes) = mapping.writes_if_any()
            && writes.share.nr() != 0
        {
            writes.call(pressure);
        }
    }
}

pub(super) fn serve(files: &Arc<Files>, call: Call) {
    match call {
        Call::Clean(number) | Call::CleanNow(number) => clean(files, number),
        Call::Close => _ = close_one(files),
    }
}

/// Writes the dirty pages of a file to the backend. Also makes them durable if another thread waits
/// for that, if many pages are not clean, if a page has not been clean for long, or if one sync of
/// all would take long. For some time after a failure, does nothing unless a thread waits.
fn clean(files: &Files, number: u64) {
    use crate::dirty::commits::Sync;
    use crate::writeback::flush::Flusher;

    let Some(mapping) = visit(files, number).filter(|mapping| is_background(mapping)) else {
        return;
    };
    let Some(writes) = mapping.writes_if_any() else {
        return;
    };
    let pressure = &files.shared.pressure;
    let Some(attempt) = writes.service.begin_attempt(pressure, number) else {
        return;
    };
    if !attempt.is_urgent && writes.service.pause(false) != std::time::Duration::ZERO {
        // The watcher will make the request again.
        return;
    }
    let is_durable = || {
        let is_old = writes.share.nr() != 0 && writes.since.is_before(pressure.limits.age);
        !is_old && !pressure.is_high(&writes.share)
    };
    // An error or a panic is recorded for the handles of the file.
    let result = Flusher(&mapping).caught(|flusher| {
        if attempt.is_urgent {
            flusher.sync_unless(Sync::Data, || false)
        } else if is_durable() {
            flusher.flush_in_background()
        } else {
            flusher.sync_unless(Sync::Data, is_durable)
        }
    });
    attempt.end(result.err().map(|error| obstacle_of(&error)));
}

pub(crate) fn close_left(files: &Arc<Files>) {
    // If a backend panics, the other files are still closed.
    while close_one(files) {}
}

/// Drops a strong reference that was left to the flushers. If the file has no handle, first makes
/// it durable. Returns `false` if there is no such reference.
fn close_one(files: &Arc<Files>) -> bool {
    let share = lock(&files.left).pop();
    let Some(share) = share else {
        return false;
    };
    let share = Opened::new(share);
    if share.has_no_handle() {
        share.save_or_tell();
    }
    true
}

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
        registry: Registry::default(),
        engines,
        flushers: Flushers::new(calls, watch, serve),
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

impl Keeper for Files {
    fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    fn forget(&self, id: FileId, number: u64) {
        // In a fork, a thread of the parent may have held the lock, which is then never released.
        if self.shared.home.is_here() {
            self.registry.forget(id, number);
        }
    }

    fn take_share(self: Arc<Self>, number: u64) {
        if let Some(mapping) = self.registry.mapping(number) {
            lock(&self.left).push(Share::of_counted(mapping));
        }
        // If no thread can be started now, the request waits until one is: in a model, for ever.
        let _ = self.flushers.start(&self);
        self.shared.pressure.calls.call(Call::Close);
    }

    fn throttle(&self, number: u64) -> Result<(), Error> {
        Cleaner(self).throttle(number)
    }

    fn make_room(&self, error: Error, order: Order) -> Result<(), Error> {
        Cleaner(self).make_room(error, order)
    }
}

impl LeafOwners for Files {
    fn take_leaf<'s>(&self, number: u64, leaf: usize, held: Leaf<'s>) -> Option<UniqueFrame<'s>> {
        let mapping = visit(self, number)?;
        Leaves(self.supply()).take(mapping.index(), leaf, held).ok()
    }
}
