//! Syncs of the backend: steps 3 and 4 of making pages durable ([`super`]). Changes of the states
//! of pages in flight ([`States`]). Written bytes whose sync was not started ([`Unstarted`]).

use std::io;
use std::ops::Range;

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::commits::Sync;
use crate::dirty::service::Step;
use crate::dirty::writes::{Durability, Storage, Writeback, Writes};
use crate::mapping::record::Mapping;

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
        let _step = self.0.begin_step(Step::Sync);
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
        storage
            .pace
            .learn(given, began.elapsed(), self.0.shared.pressure.limits.stall);
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
        let step = self.0.begin_step(Step::BeginSync);
        self.0.call_backend(|backend| backend.begin_sync(bytes))?;
        drop(step);
        settle.after = None;
        storage.may_have_dirty = had_dirty;
        storage.is_doubtful = was_doubtful;
        Ok(())
    }
}

/// Changes of the states of pages in flight to the backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct States<'m>(pub(super) &'m Mapping);

impl States<'_> {
    pub(super) fn settle_written(self, writes: &Writes, after: fn(PageState) -> PageState) {
        // No page past the end is in flight, and truncated pages are no longer unsynced.
        let (mut from, end) = (0, self.0.nr_pages());
        while let Some(page) = writes.written().next(from, end) {
            from = page + 1;
            self.change_state(writes, page, after);
        }
    }

    pub(super) fn change_state(
        self,
        writes: &Writes,
        page: PageNr,
        after: impl Fn(PageState) -> PageState,
    ) {
        let Some((claim, _, record, before)) = self.0.claim_page(page) else {
            // Truncated: none of its bytes must be written or kept.
            return;
        };
        let after = after(before);
        self.0.note_state(writes, page, before, after);
        after.store(record);
        // The bytes are unchanged, so the drop restores the slot.
        drop(claim);
    }
}

/// Writes in ascending order that the backend has accepted, and whose sync was not started
/// ([`Backend::begin_sync`](pagewell_io::Backend::begin_sync)). A sync is started for one range:
/// the bytes in its gaps are clean in the backend, or are to be synced too. During a flush, such
/// calls only keep the device busy, so few of them suffice ([`MIN_BYTES`](Self::MIN_BYTES)). Before
/// a sync that is due, throttled writers must see that calls return, so each call must be short
/// ([`MIN_BYTES_BEFORE_SYNC`](Self::MIN_BYTES_BEFORE_SYNC)).
#[derive(Debug, Default)]
pub(super) struct Unstarted {
    range: Option<Range<u64>>,
    nr_bytes: u64,
    /// Number of contiguous parts of these bytes. Each is at least one request to the device.
    nr_parts: u64,
}

impl Unstarted {
    /// Number of bytes at which a flush starts their sync. Dirty pages of a database are scattered,
    /// so a call for each contiguous part would be one for every few pages.
    pub(super) const MIN_BYTES: u64 = 4 << 20;

    /// Number of bytes at which their sync is started before a sync of the file that is due.
    pub(super) const MIN_BYTES_BEFORE_SYNC: u64 = 1 << 20;

    /// Adds bytes that the backend has accepted, after those added before.
    pub(super) fn add(&mut self, bytes: Range<u64>) {
        self.nr_bytes += bytes.end - bytes.start;
        let range = self.range.get_or_insert(bytes.start..bytes.start);
        self.nr_parts += u64::from(self.nr_parts == 0 || range.end != bytes.start);
        range.end = bytes.end;
    }

    /// Returns the range and begins a new one, if at least `min_bytes` or `max_parts` were added.
    /// On a slow backend, `max_parts` limits the duration of the call ([`pagewell_policy::pace`]).
    pub(super) fn take_if_many(&mut self, min_bytes: u64, max_parts: u64) -> Option<Range<u64>> {
        if self.nr_bytes < min_bytes && self.nr_parts < max_parts {
            return None;
        }
        (self.nr_bytes, self.nr_parts) = (0, 0);
        self.range.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_ranges_are_started_together() {
        let mut unstarted = Unstarted::default();
        assert_eq!(unstarted.take_if_many(1, 1), None);
        let page = |nr: u64| nr * 4096..(nr + 1) * 4096;
        for nr in 0..255 {
            unstarted.add(page(10 * nr));
            assert_eq!(unstarted.take_if_many(1 << 20, 256), None);
        }
        unstarted.add(page(2550));
        assert_eq!(unstarted.take_if_many(1 << 20, 1000), Some(0..2551 * 4096));
        assert_eq!(unstarted.take_if_many(1, 1), None);
        unstarted.add(8..9);
        assert_eq!(unstarted.take_if_many(1, 2), Some(8..9));
    }

    #[test]
    fn contiguous_ranges_are_one_part() {
        let mut unstarted = Unstarted::default();
        for pages in [0..2, 2..3, 5..6, 6..7] {
            unstarted.add(pages.start * 4096..pages.end * 4096);
            assert_eq!(unstarted.take_if_many(1 << 20, 3), None);
        }
        unstarted.add(8 * 4096..9 * 4096);
        assert_eq!(unstarted.take_if_many(1 << 20, 3), Some(0..9 * 4096));
    }
}
