//! The claim of a page-table entry: the exclusive right to change it.
//!
//! Entries are changed only by a claim, so that every change increments the version, with two
//! exceptions. The last share of a table is dropped by its only user, which stores empty entries
//! with version 0; readers find that the directory no longer names the table. A move of an area
//! stores entries at new places under claims of the old ones, with the structure lock held for
//! writing.
//!
//! Protocol.
//! 1. Load the entry, and set `busy` by a compare-and-swap. If it succeeds, the entry is claimed.
//! 2. Write the page's bytes (after a release fence), count entries, take references.
//! 3. End the claim with the new entry; or drop it, if nothing changed, which restores the old one.
//!
//! A thread that claims an entry must keep the table from being freed ([`crate::tables::table`]).
//!
//! C1: the holder of a claim neither waits nor allocates, so claims cannot deadlock, and a wait for
//! one lasts at most a few steps and the copy of one page. Debug builds check this.
//!
//! Ordering. The swap is an acquire, and the end of a claim a release: the holder sees the previous
//! holder's changes of the page and of the counts. But bytes written after the swap may become
//! visible before it, so writes in place need [`Claim::before_writing`].

use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::words::pte::{Pte, State};

#[derive(Debug)]
#[must_use]
pub(crate) struct Claim<'t> {
    word: &'t AtomicU64,
    before: Pte,
}

impl<'t> Claim<'t> {
    /// Claims the entry in `word` if it still equals `seen`, which is not claimed.
    #[inline]
    pub(crate) fn try_new(word: &'t AtomicU64, seen: Pte) -> Option<Self> {
        debug_assert!(!seen.is_busy());
        // ORDERING: Acquire on success; pairs with the release that ended the previous claim.
        // Relaxed on failure: nothing else is used.
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

    /// Orders the claim before writes of the page's bytes in place, which readers may be copying.
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
        // ORDERING: Release fence; pairs with the acquire fence of a reader, through the bytes.
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
        // ORDERING: Release; as in `end`. The old word is correct again: no byte changed.
        self.word.store(self.before.bits(), Ordering::Release);
    }
}

#[inline(always)]
pub(crate) fn look(word: &AtomicU64) -> Pte {
    // ORDERING: Acquire; pairs with the release that ended the last claim.
    Pte::from_bits(word.load(Ordering::Acquire))
}

/// Claims the entry, once no other thread has claimed it. Returns `None` if it is empty.
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

/// Claims the entry if it is in this state. Waits while another thread has claimed it.
pub(crate) fn claim_in(word: &AtomicU64, state: State) -> Option<Claim<'_>> {
    let mut backoff = Backoff::new();
    loop {
        let seen = look(word);
        if seen.is_busy() {
            backoff.wait();
        } else if seen.state() != state {
            return None;
        } else if let Some(claim) = Claim::try_new(word, seen) {
            return Some(claim);
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

/// Claims are not counted in release builds, nor in models, whose threads share one of the system.
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
