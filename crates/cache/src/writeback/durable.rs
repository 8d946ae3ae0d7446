//! Syncs of the backend: steps 3 and 4 of making pages durable ([`super`]).

use std::io;
use std::ops::Range;

use crate::base::page_state::PageState;
use crate::dirty::commits::Sync;
use crate::dirty::options::Writeback;
use crate::dirty::service::Step;
use crate::dirty::storage::{Durability, Storage};
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::writeback::states::States;
use crate::writeback::unstarted::Unstarted;

/// Changes the state of all unsynced pages when it is dropped, also on unwind.
struct Settle<'m> {
    mapping: &'m Mapping,
    writes: &'m Writes,
    /// `None` leaves the pages unchanged.
    after: Option<fn(PageState) -> PageState>,
}

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        if let Some(after) = self.after {
            States(self.mapping).settle_written(self.writes, after);
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Durable<'m>(pub(super) &'m Mapping);

impl Durable<'_> {
    /// Steps 3 and 4 of the protocol. The caller holds the writeback lock.
    pub(super) fn sync_storage(
        self,
        writes: &Writes,
        storage: &mut Storage,
        what: Sync,
    ) -> io::Result<()> {
        let is_due = self.is_sync_due(writes, storage);
        let given = storage.pace.begin_sync();
        let began = pagewell_sync::time::Instant::now();
        if is_due && !self.0.is_deep() {
            // If the sync of a large amount is started in parts, throttled writers see that calls
            // return. (With direct I/O the data has already reached the device.)
            self.begin_sync_of_written(writes, storage)?;
        }
        // Dropped last: a thread that sees that the call has returned finds the pages clean.
        let _step = writes
            .service
            .begin_step(&self.0.shared().pressure, Step::Sync);
        let mut settle = Settle {
            mapping: self.0,
            writes,
            after: Some(PageState::failed),
        };
        let was_doubtful = std::mem::replace(&mut storage.is_doubtful, true);
        match what {
            Sync::Data => self.0.call_backend(|backend| backend.sync_data())?,
            Sync::All => self.0.call_backend(|backend| backend.sync_all())?,
        }
        storage.pace.learn(
            given,
            began.elapsed(),
            self.0.shared().pressure.limits.stall,
        );
        settle.after = Some(PageState::synced);
        storage.durability = Durability::Durable;
        storage.is_cut = false;
        storage.may_have_dirty = false;
        storage.is_doubtful = was_doubtful;
        Ok(())
    }

    /// Whether the backend must be synced before more is written to it. Always `false` for a file
    /// without background writeback, since no writer waits for its pages.
    pub(super) fn is_sync_due(self, writes: &Writes, storage: &Storage) -> bool {
        writes.mode == Writeback::Background && storage.pace.is_sync_due()
    }

    fn begin_sync_of_written(self, writes: &Writes, storage: &mut Storage) -> io::Result<()> {
        let (page_size, end) = (self.0.page_size() as u64, self.0.nr_pages());
        let mut unstarted = Unstarted::default();
        let mut from = 0;
        while let Some(page) = writes.written().next(from, end) {
            from = page + 1;
            unstarted.add(page * page_size..from * page_size);
            let min_bytes = Unstarted::MIN_BYTES_BEFORE_SYNC;
            if let Some(bytes) = unstarted.take_if_many(min_bytes, storage.pace.most_requests()) {
                self.begin_sync(writes, storage, bytes)?;
            }
        }
        Ok(())
    }

    /// Starts a sync of `bytes`. After an error or a panic, all unsynced pages are dirty again, and
    /// the state of the backend is unknown, as after a failed sync.
    pub(super) fn begin_sync(
        self,
        writes: &Writes,
        storage: &mut Storage,
        bytes: Range<u64>,
    ) -> io::Result<()> {
        let mut settle = Settle {
            mapping: self.0,
            writes,
            after: Some(PageState::failed),
        };
        let had_dirty = std::mem::replace(&mut storage.may_have_dirty, true);
        let was_doubtful = std::mem::replace(&mut storage.is_doubtful, true);
        let step = writes
            .service
            .begin_step(&self.0.shared().pressure, Step::BeginSync);
        self.0.call_backend(|backend| backend.begin_sync(bytes))?;
        drop(step);
        settle.after = None;
        storage.may_have_dirty = had_dirty;
        storage.is_doubtful = was_doubtful;
        Ok(())
    }
}
