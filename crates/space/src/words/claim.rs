//! The claim of a page-table entry: the exclusive right to change it.
//!
//! Place. Faults, writes, pins, unmapping, protecting, moving, copies of tables and migration walks
//! change entries only here, so that every change increments the version. Two exceptions: the
//! thread that drops the last share of a table, its only user, stores empty entries with version 0,
//! and readers rely on the directory's version. A move stores the entry at its new place under the
//! claim of the old place, with the structure lock for writing.
//!
//! Protocol.
//! 1. Load the entry, and swap in the same word with `busy` set. Success is the claim.
//! 2. Write the page's bytes (after a release fence), count entries, take references.
//! 3. End the claim with the new entry. Or drop the claim, which restores the old entry; nothing
//!    may have changed in this case.
//!
//! A claiming thread ensures that the table is not freed ([`crate::tables::table`] lists the ways).
//!
//! C1: the holder of a claim neither waits nor allocates. So claims cannot deadlock, and a wait for
//! one takes a few steps and the copy of one page at most. Builds with debug assertions count the
//! claims of each thread, and code that allocates or waits asserts that it holds none
//! ([`assert_none_held`]).
//!
//! Ordering. The swap is an acquire: the holder sees what the last holder did to the page and to
//! the counts. The end is a release. Neither keeps bytes that are written after the swap from
//! becoming visible before it, so a thread that writes bytes in place has a release fence after the
//! swap ([`Claim::before_writing`]).

use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::words::pte::{Pte, State};

/// Exclusive right to change one entry.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'t> {
    word: &'t AtomicU64,
    before: Pte,
}

impl<'t> Claim<'t> {
    /// Claims the entry if it is still as `seen`, a settled one. Returns `None` if it changed.
    #[inline]
    pub(crate) fn try_new(word: &'t AtomicU64, seen: Pte) -> Option<Self> {
        debug_assert!(!seen.is_busy());
        // ORDERING: Acquire on success; pairs with the release that ended the last claim. Relaxed
        // on failure: nothing else was loaded.
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

    #[inline]
    pub(crate) fn before(&self) -> Pte {
        self.before
    }

    /// Orders the claim before writes of the page's bytes in place. The holder calls it in between.
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
        // ORDERING: Release fence; pairs with the acquire fence of the optimistic read, through the
        // bytes. The model `loom_read_vs_write` fails without it.
        fence(Ordering::Release);
    }

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
        // ORDERING: Release; as in `end`. Reads that began before the claim have unchanged bytes.
        self.word.store(self.before.bits(), Ordering::Release);
    }
}

#[inline(always)]
pub(crate) fn look(word: &AtomicU64) -> Pte {
    // ORDERING: Acquire; pairs with the release that ended the last claim, to see what it
    // published.
    Pte::from_bits(word.load(Ordering::Acquire))
}

/// Claims an entry once no other thread has claimed it. Returns `None` if it is empty.
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

/// Asserts that this thread holds no claim. Called before allocations and waits (C1).
#[inline]
pub(crate) fn assert_none_held() {
    debug_assert!(held::is_none(), "allocates or waits with an entry claimed");
}

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

/// No counting. (The threads of a model share one thread of the system.)
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
