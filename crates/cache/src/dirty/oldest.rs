//! Oldest log sequence number (LSN) of a write to a file that may not be durable: the program must
//! keep its log from that LSN on.
//!
//! Protocol. Each page has the highest LSN of its writes ([`crate::File::write_at_lsn`]), but
//! recovery must begin at the *first* write that is not durable. The file keeps that LSN in two
//! words: the lower of them may be too old, but never too new.
//! ```text
//! writer, with the slot claimed                 sync, with the writeback lock
//! 1 record the page as dirty                    a lower `before` to the value of `since`;
//! 2 lower `since` to the LSN of the write         take `since`, leave none
//!                                               b look for dirty pages, write them, sync
//!                                               c if all is durable: `before` is none
//!                                                 else: lower `since` to the value of `before`
//! ```
//!
//! Invariants.
//! - O1: for each page that is dirty or unsynced, and whose writes have returned, the lower of
//!   `since` and `before` is at most the LSN of its first write that is not durable. If step 2
//!   comes before step a, the sync finds the page (E1), and makes it durable or puts the LSN back.
//!   If step 2 comes after step a, the LSN is in `since` until the next sync.
//! - O2: a thread that reads without the lock loads `since` first, then `before`. If a sync has
//!   taken an LSN from `since` before the first load, the second load finds it in `before`.
//!
//! E1: the read-modify-write of step 2 releases, and that of step a acquires. So a sync that takes
//! an LSN sees that the page is recorded as dirty.
//!
//! Verified by: `loom_lsn_vs_sync`; `crates/pagewell/tests/durability/checkpoints.rs`.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Padded;

const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Oldest {
    /// Lowest LSN of the writes since the last sync began.
    since: Padded<AtomicU64>,
    /// Lowest LSN of the earlier writes that are not known to be durable.
    before: Padded<AtomicU64>,
}

impl Default for Oldest {
    fn default() -> Self {
        Self {
            since: Padded(AtomicU64::new(NONE)),
            before: Padded(AtomicU64::new(NONE)),
        }
    }
}

impl Oldest {
    /// Step 2, with an `lsn` of 0 for a write without one. The caller has claimed the page's slot
    /// and recorded the page as dirty.
    #[inline]
    pub(crate) fn note(&self, lsn: u64) {
        if lsn != 0 {
            // ORDERING: Release; E1. The update is a read-modify-write even if it does not lower
            // the value, so it either precedes the exchange of step a, or stays for the next sync.
            self.since.fetch_min(lsn, Ordering::Release);
        }
    }

    /// Step a. The caller holds the writeback lock.
    pub(crate) fn begin(&self) {
        loop {
            // ORDERING: Relaxed; the exchange decides.
            let seen = self.since.load(Ordering::Relaxed);
            // ORDERING: Relaxed; published by the exchange.
            self.before.fetch_min(seen, Ordering::Relaxed);
            // ORDERING: AcqRel; E1, and O2: a thread that sees `since` taken sees `before` lowered.
            let taken =
                self.since
                    .compare_exchange(seen, NONE, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }

    /// Step c, after a sync that made everything durable that was dirty at step a.
    pub(crate) fn end_durable(&self) {
        // ORDERING: Relaxed; a value of `NONE` publishes nothing.
        self.before.store(NONE, Ordering::Relaxed);
    }

    /// Step c, after a sync that failed, even if only for some pages.
    pub(crate) fn end_failed(&self) {
        // ORDERING: Relaxed; loads what the holder of the lock stored. Release, as in `note`.
        let before = self.before.load(Ordering::Relaxed);
        self.since.fetch_min(before, Ordering::Release);
    }

    /// Returns the oldest LSN that may not be durable, or `None` if every write with an LSN is.
    pub(crate) fn get(&self) -> Option<u64> {
        // ORDERING: Acquire; O2: a thread that sees `since` taken sees `before` lowered. A later
        // write that lowers `since` again continues the release sequence.
        let since = self.since.load(Ordering::Acquire);
        // ORDERING: Relaxed; ordered by the load above.
        let before = self.before.load(Ordering::Relaxed);
        Some(since.min(before)).filter(|lsn| *lsn != NONE)
    }
}
