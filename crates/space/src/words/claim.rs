//! The claim of a page-table entry: the one way to change it.
//!
//! Place. Faults, writes, pins, unmapping, protecting, moving, the copying of tables and the walks of migrations
//! change entries, all of them here, so that no change can forget to move the version.
//!
//! Protocol.
//! 1. Look at the entry, and swap it for the same word with `busy` set. Who succeeds has the claim.
//! 2. Do what is to be done: write the page's bytes (behind a release fence), count entries, take references.
//! 3. End the claim with the new entry, or drop it, which restores the old one: then nothing may have changed.
//!
//! Whoever claims makes sure that the table is not freed meanwhile ([`crate::tables::table`] lists the ways).
//!
//! C1: a holder of a claim does not wait for anything, nor allocates. So claims cannot deadlock, and waiting for one
//! is waiting for a few steps and the copy of one page at the most. Builds with debug assertions count the claims of
//! each thread, and whatever allocates or waits checks that it has none ([`assert_none_held`]).
//!
//! Ordering. The swap is an acquire: it sees what the last holder did to the page and to the counts. The end is a
//! release. A release does not keep later bytes from being seen before the swap, so whoever writes bytes in place
//! has a release fence after the swap ([`Claim::before_writing`]).

use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::words::pte::{Pte, State};

/// The right to change one entry.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'t> {
    word: &'t AtomicU64,
    before: Pte,
}

impl<'t> Claim<'t> {
    /// Claims the entry if it still is as it was `seen`, and that is not claimed.
    #[inline]
    pub(crate) fn try_new(word: &'t AtomicU64, seen: Pte) -> Option<Self> {
        debug_assert!(!seen.is_busy());
        // ORDERING: Acquire on success; pairs with the release that ended the last claim. Relaxed on failure:
        // nothing was learned.
        word.compare_exchange(
            seen.bits(),
            seen.claimed().bits(),
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .ok()
        .map(|_| {
            held::add();
            Self { word, before: seen }
        })
    }

    /// The entry as it was claimed.
    #[inline]
    pub(crate) fn before(&self) -> Pte {
        self.before
    }

    /// To be called between the claim and writing the bytes of the page where they are.
    ///
    /// ```text
    /// writer                        optimistic reader
    /// swap: busy                    load the entry: settled
    /// fence(Release)                copy: some of the new bytes
    /// write the bytes               fence(Acquire)
    /// end: next version (release)   load the entry again: must not be the old one
    /// ```
    #[inline]
    pub(crate) fn before_writing(&self) {
        // ORDERING: Release fence; pairs with the acquire fence of the optimistic read, through the bytes. The model
        // `loom_read_vs_write` fails without it.
        fence(Ordering::Release);
    }

    /// Ends the claim: the entry is now `after`.
    #[inline]
    pub(crate) fn end(self, after: Pte) {
        debug_assert!(!after.is_busy() && after != self.before);
        let word = self.word;
        std::mem::forget(self);
        held::remove();
        // ORDERING: Release; pairs with the acquire of the next claim and of readers.
        word.store(after.bits(), Ordering::Release);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        held::remove();
        // ORDERING: Release; as in `end`. A reader that saw the word before the claim was not wrong.
        self.word.store(self.before.bits(), Ordering::Release);
    }
}

/// Loads an entry.
#[inline(always)]
pub(crate) fn look(word: &AtomicU64) -> Pte {
    // ORDERING: Acquire; pairs with the release that ended the last claim: what the entry names is seen as it was
    // published.
    Pte::from_bits(word.load(Ordering::Acquire))
}

/// Claims an entry when it is settled, and not empty.
pub(crate) fn claim_used(word: &AtomicU64) -> Option<Claim<'_>> {
    let mut backoff = Backoff::new();
    loop {
        let seen = look(word);
        match seen.state() {
            State::Empty => return None,
            State::Present(_) | State::Migration(_) => {
                if let Some(claim) = Claim::try_new(word, seen) {
                    return Some(claim);
                }
            }
            State::Busy => backoff.wait(),
        }
    }
}

/// To be called where something is allocated or waited for (C1).
#[inline]
pub(crate) fn assert_none_held() {
    debug_assert!(held::is_none(), "allocates or waits with an entry claimed");
}

/// How many claims this thread has.
#[cfg(all(debug_assertions, not(loom)))]
mod held {
    use std::cell::Cell;

    thread_local! {
        static NR: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        NR.set(NR.get() + 1);
    }

    pub(super) fn remove() {
        NR.set(NR.get() - 1);
    }

    pub(super) fn is_none() -> bool {
        NR.get() == 0
    }
}

/// Nobody counts. (The threads of a model are of one thread of the system.)
#[cfg(not(all(debug_assertions, not(loom))))]
mod held {
    #[inline(always)]
    pub(super) fn add() {}

    #[inline(always)]
    pub(super) fn remove() {}

    #[inline(always)]
    pub(super) fn is_none() -> bool {
        true
    }
}
