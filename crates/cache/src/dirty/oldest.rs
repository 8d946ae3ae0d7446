//! The oldest log sequence number of a file that may not be durable: from where a program has to keep its log.
//!
//! A page's own number is that of its *last* write ([`crate::File::write_at_lsn`]); recovery has to begin at the *first* write that is not
//! durable. That is kept for the file, not for each page: two words, which are never too new.
//!
//! Protocol.
//!
//! ```text
//! writer, the slot claimed                      sync, with the writeback lock
//! 1 note the page as dirty                      a lower `before` to what `since` has; take `since`, leave none
//! 2 lower `since` to the write's number         b look for dirty pages, give them, sync
//!                                               c all of it is durable: `before` has none
//!                                                 else: lower `since` to what `before` has
//! ```
//!
//! Invariants.
//! - O1: a page that is dirty or written, and whose writes have returned, has its first number not below the lower one of `since` and `before`.
//!   If 2 comes before a, the sync finds the page (E1), and makes it durable, or puts the number back. If it comes after a, the
//!   number is in `since` until the next sync, whatever this one does with the page.
//! - O2: who looks without a lock loads `since` first, then `before`: a number that is taken from `since` is in `before` by then.
//!
//! Edges. E1: the read-modify-write of 2 releases, that of a acquires: a sync that takes a number sees the page noted as dirty.
//!
//! Proved by: `loom_lsn_vs_sync`; `crates/pagewell/tests/durability/checkpoints.rs`.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Padded;

const NONE: u64 = u64::MAX;

/// The oldest number of a file that may not be durable.
#[derive(Debug)]
pub(crate) struct Oldest {
    /// Of writes since the last sync began.
    since: Padded<AtomicU64>,
    /// Of writes before that, as long as they are not known to be durable.
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
    /// Step 2: a write with this number, which may be none (0). The page is noted as dirty, and its slot claimed.
    #[inline]
    pub(crate) fn note(&self, lsn: u64) {
        if lsn != 0 {
            // ORDERING: Release; E1. A read-modify-write even if it changes nothing: a sync that has not taken it comes later, and leaves it.
            self.since.fetch_min(lsn, Ordering::Release);
        }
    }

    /// Step a; the writeback lock is held.
    pub(crate) fn begin(&self) {
        loop {
            // ORDERING: Relaxed; the exchange decides.
            let seen = self.since.load(Ordering::Relaxed);
            // ORDERING: Relaxed; published by the exchange.
            self.before.fetch_min(seen, Ordering::Relaxed);
            // ORDERING: AcqRel; E1, and O2: who sees it taken sees `before` lowered. It fails only if a write has lowered it since.
            let taken =
                self.since
                    .compare_exchange(seen, NONE, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }

    /// Step c, if everything that was dirty at step a is durable.
    pub(crate) fn end_durable(&self) {
        // ORDERING: Relaxed; nothing is published by there being none.
        self.before.store(NONE, Ordering::Relaxed);
    }

    /// Step c, if something may not be durable.
    pub(crate) fn end_failed(&self) {
        // ORDERING: Relaxed; the holder of the lock has stored it. Release, as in `note`.
        let before = self.before.load(Ordering::Relaxed);
        self.since.fetch_min(before, Ordering::Release);
    }

    /// The number, if there is one.
    pub(crate) fn get(&self) -> Option<u64> {
        // ORDERING: Acquire; O2: who sees `since` taken sees `before` lowered. (Who sees it lowered again by a later write does too, as that
        // has continued the release.)
        let since = self.since.load(Ordering::Acquire);
        // ORDERING: Relaxed; ordered by the load above.
        let before = self.before.load(Ordering::Relaxed);
        Some(since.min(before)).filter(|lsn| *lsn != NONE)
    }
}
