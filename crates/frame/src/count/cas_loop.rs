//! The scheme whose locked word is zero: a try compares and swaps. The baseline; the protocol is at the top of [`super::refcount`].

#![allow(unsafe_code)] // It promises what handles rely on.

use pagewell_sync::atomic::{AtomicU32, Ordering};

use crate::count::scheme::{Put, RefScheme, TryGet, overflow};
use crate::words::refword::{AddUnlessZero, CasLoopWord, Got, Subtracted};

/// Locked is zero, so that a try has to add unless zero: the baseline.
#[derive(Debug, Clone, Copy)]
pub enum CasLoop {}

// SAFETY: (A) to (D) are the invariants of the module's text, which the models check.
unsafe impl RefScheme for CasLoop {
    const NAME: &'static str = "cas-loop";
    const LOCKED: u32 = CasLoopWord::LOCKED.0;

    #[inline]
    fn is_locked(word: &AtomicU32) -> bool {
        // ORDERING: Relaxed; a hint, which orders nothing.
        CasLoopWord(word.load(Ordering::Relaxed)).is_locked()
    }

    #[inline]
    fn count(word: &AtomicU32) -> u32 {
        // ORDERING: Relaxed; a hint, which orders nothing.
        CasLoopWord(word.load(Ordering::Relaxed)).count()
    }

    #[inline]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        // ORDERING: Acquire, E3: if it sees the lock, partner is the freeze that put it there.
        let mut seen = word.load(Ordering::Acquire);
        // Bound: the CAS fails only if another thread changed the word, which is progress of that one.
        loop {
            match CasLoopWord(seen).add_unless_zero(n) {
                AddUnlessZero::Locked => return TryGet::Locked,
                AddUnlessZero::Saturated => return TryGet::Saturated,
                AddUnlessZero::Replace(with) => {
                    // ORDERING: Acquire, E2 (from set and unfreeze); on failure E3, as above.
                    match word.compare_exchange_weak(
                        seen,
                        with,
                        Ordering::Acquire,
                        Ordering::Acquire,
                    ) {
                        Ok(_) => return TryGet::Taken,
                        Err(now) => seen = now,
                    }
                }
            }
        }
    }

    #[inline]
    fn get(word: &AtomicU32) {
        // ORDERING: Relaxed; the caller's reference came with what it needs to see.
        let prev = CasLoopWord(word.fetch_add(1, Ordering::Relaxed));
        match prev.after_get() {
            Got::Counted => {}
            Got::Overflow => overflow(),
            Got::Misuse => get_of_zero(word, prev),
        }
    }

    #[inline]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        // ORDERING: Release, E1: partner is the acquire below, of this or another put, or that of
        // freeze; it publishes what the references' users did to the page.
        let prev = CasLoopWord(word.fetch_sub(n, Ordering::Release));
        match prev.after_sub(n) {
            Subtracted::Kept => Put::Kept,
            Subtracted::Zero => {
                // ORDERING: Acquire, E1: it reads our own zero, which continues the release sequences
                // of all puts before ours. A load and not a fence, which ThreadSanitizer would miss.
                let _ = word.load(Ordering::Acquire);
                Put::Last
            }
            Subtracted::Misuse => put_of_zero(word, prev, n),
        }
    }

    #[inline]
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        // ORDERING: AcqRel; acquire is E1 (from the puts that brought the count down to what was
        // expected), release is E3 (to the tries that fail). Relaxed on failure: nothing was learned.
        word.compare_exchange(expected, Self::LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// A get by a caller that holds no reference.
#[cold]
#[inline(never)]
fn get_of_zero(word: &AtomicU32, prev: CasLoopWord) -> ! {
    // ORDERING: Relaxed; a repair of the count only, after a bug.
    word.fetch_sub(1, Ordering::Relaxed);
    panic!(
        "get of a page without references (reference word {:#010x})",
        prev.0
    )
}

/// A put of `n` references of which not all were there.
#[cold]
#[inline(never)]
fn put_of_zero(word: &AtomicU32, prev: CasLoopWord, n: u32) -> ! {
    let repaired = prev.repaired().0;
    let mut seen = prev.0.wrapping_sub(n);
    // Bound: the CAS fails only if another thread changed the word, and the loop ends as soon as that
    // was a store, which leaves a sane word. Other misused puts may make it repeat.
    // ORDERING: Relaxed; a repair of the count only, after a bug.
    while let Err(now) = word.compare_exchange(seen, repaired, Ordering::Relaxed, Ordering::Relaxed)
    {
        if CasLoopWord(now).is_sane() {
            break;
        }
        seen = now;
    }
    panic!(
        "put of {n} references that the page does not have (reference word {:#010x})",
        prev.0
    )
}
