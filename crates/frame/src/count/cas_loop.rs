//! The baseline scheme. [`super::refcount`] describes the protocol and its labels.

#![allow(unsafe_code)] // `RefScheme` is an unsafe trait.

use pagewell_sync::atomic::{AtomicU32, Ordering};

use crate::count::scheme::{Put, RefScheme, TryGet, overflow};
use crate::words::refword::{AddUnlessZero, CasLoopWord, Got, Subtracted};

/// Scheme that locks with zero: a `try_get` adds unless the count is zero.
#[derive(Debug, Clone, Copy)]
pub enum CasLoop {}

// SAFETY: (A) to (D) follow from the invariants of `super::refcount`, which the models check.
unsafe impl RefScheme for CasLoop {
    const NAME: &'static str = "cas-loop";
    const LOCKED: u32 = CasLoopWord::LOCKED.0;

    #[inline]
    fn is_locked(word: &AtomicU32) -> bool {
        // ORDERING: Relaxed; the result is a hint.
        CasLoopWord(word.load(Ordering::Relaxed)).is_locked()
    }

    #[inline]
    fn count(word: &AtomicU32) -> u32 {
        // ORDERING: Relaxed; the result is a hint.
        CasLoopWord(word.load(Ordering::Relaxed)).count()
    }

    #[inline]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        // ORDERING: Acquire, E3: a load that sees the page locked pairs with `freeze`.
        try_add_expecting(word, n, word.load(Ordering::Acquire))
    }

    #[inline]
    fn get(word: &AtomicU32) {
        // ORDERING: Relaxed; the caller's own reference already orders the page's data.
        let prev = CasLoopWord(word.fetch_add(1, Ordering::Relaxed));
        match prev.after_get() {
            Got::Counted => {}
            Got::Overflow => overflow(),
            Got::Misuse => get_of_zero(word, prev),
        }
    }

    #[inline]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        // ORDERING: Release, E1: pairs with the acquire below, in any put, or with that of freeze.
        let prev = CasLoopWord(word.fetch_sub(n, Ordering::Release));
        match prev.after_sub(n) {
            Subtracted::Kept => Put::Kept,
            Subtracted::Zero => {
                // ORDERING: Acquire, E1: reads this put's zero, which continues the release
                // sequences of all earlier puts. A load, since ThreadSanitizer models no fences.
                let _ = word.load(Ordering::Acquire);
                Put::Last
            }
            Subtracted::Misuse => put_of_zero(word, prev, n),
        }
    }

    #[inline]
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        // ORDERING: AcqRel; acquire is E1 (from puts), release is E3 (to `try_get`s that fail).
        word.compare_exchange(expected, Self::LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Adds `n` unless the count is zero. The first compare-and-swap expects the word to be `seen`,
/// which is not zero, or was loaded with acquire.
#[inline]
pub(super) fn try_add_expecting(word: &AtomicU32, n: u32, mut seen: u32) -> TryGet {
    // Bound: after its first iteration, the CAS fails only if another thread has changed the word,
    // and so made progress.
    loop {
        match CasLoopWord(seen).add_unless_zero(n) {
            AddUnlessZero::Locked => return TryGet::Locked,
            AddUnlessZero::Saturated => return TryGet::Saturated,
            AddUnlessZero::Replace(with) => {
                // ORDERING: Acquire; on success E2 (from `set`, `unfreeze`), on failure E3.
                match word.compare_exchange_weak(seen, with, Ordering::Acquire, Ordering::Acquire) {
                    Ok(_) => return TryGet::Taken,
                    Err(now) => seen = now,
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
fn get_of_zero(word: &AtomicU32, prev: CasLoopWord) -> ! {
    // ORDERING: Relaxed; this only repairs the count after a bug of the caller.
    word.fetch_sub(1, Ordering::Relaxed);
    panic!(
        "cannot get a reference: the page has none (reference word {:#010x})",
        prev.0
    )
}

#[cold]
#[inline(never)]
fn put_of_zero(word: &AtomicU32, prev: CasLoopWord, n: u32) -> ! {
    let repaired = prev.repaired().0;
    let mut seen = prev.0.wrapping_sub(n);
    // Bound: the CAS fails only if another thread has changed the word. A store leaves a valid word
    // (`is_sane`), which ends the loop. Puts without a reference may cause further iterations.
    // ORDERING: Relaxed; this only repairs the count after a bug of the caller.
    while let Err(now) = word.compare_exchange(seen, repaired, Ordering::Relaxed, Ordering::Relaxed)
    {
        if CasLoopWord(now).is_sane() {
            break;
        }
        seen = now;
    }
    panic!(
        "cannot put {n} references: the page has fewer (reference word {:#010x})",
        prev.0
    )
}

/// [`CasLoop`], but a `try_get` does not load the word before its first compare-and-swap, which
/// expects a count of 1. If the count differs, it retries with the count that it found.
///
/// Source: linux-mm, reply of Torvalds to "mm: improve folio refcount scalability" (March 2026).
#[derive(Debug, Clone, Copy)]
pub enum AssumeOne {}

// SAFETY: (A) to (D) hold as for `CasLoop`: only the first expected value of `try_add` differs. A
// compare-and-swap that expects 1 takes a reference only from a count of 1, so the page is live.
unsafe impl RefScheme for AssumeOne {
    const NAME: &'static str = "assume-one";
    const LOCKED: u32 = CasLoop::LOCKED;

    #[inline]
    fn is_locked(word: &AtomicU32) -> bool {
        CasLoop::is_locked(word)
    }

    #[inline]
    fn count(word: &AtomicU32) -> u32 {
        CasLoop::count(word)
    }

    #[inline]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        try_add_expecting(word, n, 1)
    }

    #[inline]
    fn get(word: &AtomicU32) {
        CasLoop::get(word);
    }

    #[inline]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        CasLoop::sub_and_test(word, n)
    }

    #[inline]
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        CasLoop::freeze(word, expected)
    }
}
