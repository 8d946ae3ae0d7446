//! The scheme with a lock bit. [`super::refcount`] describes the protocol and its labels.

#![allow(unsafe_code)] // `RefScheme` is an unsafe trait.

use pagewell_sync::atomic::{AtomicU32, Ordering};

use crate::count::scheme::{Put, RefScheme, TryGet, overflow};
use crate::words::refword::{Added, GiveBack, Got, LockBitWord, Subtracted};

/// Scheme that locks with bit 31: a `try_get` is one fetch-and-add.
#[derive(Debug, Clone, Copy)]
pub enum LockBit {}

// SAFETY: (A) to (D) follow from the invariants of `super::refcount`, which the models check.
unsafe impl RefScheme for LockBit {
    const NAME: &'static str = "lock-bit";
    const LOCKED: u32 = LockBitWord::LOCKED.0;

    #[inline]
    fn is_locked(word: &AtomicU32) -> bool {
        // ORDERING: Relaxed; the result is a hint.
        LockBitWord(word.load(Ordering::Relaxed)).is_locked()
    }

    #[inline]
    fn count(word: &AtomicU32) -> u32 {
        // ORDERING: Relaxed; the result is a hint.
        LockBitWord(word.load(Ordering::Relaxed)).count()
    }

    #[inline]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        // ORDERING: Acquire; on success E2, on failure E3. (The reference is unused: no release.)
        let prev = LockBitWord(word.fetch_add(n, Ordering::Acquire));
        if prev.admits(n) {
            TryGet::Taken
        } else {
            not_admitted(word, prev, n)
        }
    }

    #[inline]
    fn get(word: &AtomicU32) {
        // ORDERING: Relaxed; the caller's own reference already orders the page's data.
        let prev = LockBitWord(word.fetch_add(1, Ordering::Relaxed));
        match prev.after_get() {
            Got::Counted => {}
            Got::Overflow => overflow(),
            Got::Misuse => get_of_nothing(word, prev),
        }
    }

    #[inline]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        // ORDERING: Release, E1: pairs with the acquire of the CAS below, in any put, or of freeze.
        let prev = LockBitWord(word.fetch_sub(n, Ordering::Release));
        match prev.after_sub(n) {
            Subtracted::Kept => Put::Kept,
            // Since the subtraction, a `try_get` and its put may have revived and locked the page.
            // This CAS then fails, and another thread frees the page. If it was even allocated
            // again and put down to zero, this CAS may succeed in place of that put's.
            // ORDERING: Acquire, E1: from all puts whose subtractions led to this zero. Relaxed on
            // failure: the page is not accessed again.
            Subtracted::Zero => {
                match word.compare_exchange(0, Self::LOCKED, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => Put::Last,
                    Err(_) => Put::Kept,
                }
            }
            Subtracted::Misuse => put_of_nothing(word, prev, n),
        }
    }

    #[inline]
    fn freeze(word: &AtomicU32, expected: u32) -> bool {
        // ORDERING: AcqRel; acquire is E1 (from puts), release is E3 (to `try_get`s that fail).
        word.compare_exchange(expected, Self::LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Completes a `try_get` that was not admitted: the page is locked, or at its limit.
#[cold]
#[inline(never)]
fn not_admitted(word: &AtomicU32, prev: LockBitWord, n: u32) -> TryGet {
    match prev.after_add(n) {
        Added::Taken => TryGet::Taken,
        Added::Locked { seen } => {
            // One attempt is enough: it fails only if another thread has reset the word, unlocked
            // the page, or added to the word and attempts a reset itself.
            // ORDERING: Relaxed; junk has no meaning (I2 of `refword`).
            let _ =
                word.compare_exchange(seen, LockBit::LOCKED, Ordering::Relaxed, Ordering::Relaxed);
            TryGet::Locked
        }
        Added::LockedHigh { seen } => {
            reset_for_certain(word, seen);
            TryGet::Locked
        }
        Added::Over { seen } => give_back(word, seen, n),
    }
}

/// Replaces `seen`, a locked word with too much junk, with the bare lock, unless another thread has
/// reset or unlocked it. Bound: the CAS fails only if another thread has changed the word. While
/// the word stays high, that thread has added to it and enters this loop, so it makes the CAS fail
/// only once before a reset succeeds and ends all loops.
#[cold]
fn reset_for_certain(word: &AtomicU32, mut seen: u32) {
    // ORDERING: Relaxed; junk has no meaning (I2 of `refword`).
    while let Err(now) =
        word.compare_exchange(seen, LockBit::LOCKED, Ordering::Relaxed, Ordering::Relaxed)
    {
        if !LockBitWord(now).is_locked_high() {
            break;
        }
        seen = now;
    }
}

/// Subtracts the `n` references of a `try_get` that exceeded the limit, unless the count is within
/// the limit again. Bound: the CAS fails only after a put, or after a `try_get` that enters this
/// loop, too, and so adds only once.
#[cold]
fn give_back(word: &AtomicU32, mut seen: u32, n: u32) -> TryGet {
    loop {
        match LockBitWord(seen).give_back(n) {
            GiveBack::Keep => return TryGet::Taken,
            GiveBack::Replace(without) => {
                // ORDERING: Relaxed; the references were not used.
                match word.compare_exchange(seen, without, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return TryGet::Saturated,
                    Err(now) => seen = now,
                }
            }
            GiveBack::Locked => {
                reset_for_certain(word, seen);
                return TryGet::Locked;
            }
        }
    }
}

#[cold]
#[inline(never)]
fn get_of_nothing(word: &AtomicU32, prev: LockBitWord) -> ! {
    if prev.is_locked() {
        // The addition became junk, as after a failed `try_get`.
        let _ = not_admitted(word, prev, 1);
    } else {
        // The addition may have revived a page being freed. If it is last, this put leaks the page.
        let _ = LockBit::sub_and_test(word, 1);
    }
    panic!(
        "cannot get a reference: the page has none (reference word {:#010x})",
        prev.0
    )
}

#[cold]
#[inline(never)]
fn put_of_nothing(word: &AtomicU32, prev: LockBitWord, n: u32) -> ! {
    let repaired = prev.repaired().0;
    let mut seen = prev.0.wrapping_sub(n);
    // Bound: the CAS fails only if another thread has changed the word. A store or a reset leaves a
    // valid word (`is_sane`), which ends the loop. Puts without a reference may prolong it.
    // ORDERING: Relaxed; this only repairs the count after a bug of the caller.
    while let Err(now) = word.compare_exchange(seen, repaired, Ordering::Relaxed, Ordering::Relaxed)
    {
        if LockBitWord(now).is_sane() {
            break;
        }
        seen = now;
    }
    panic!(
        "cannot put {n} references: the page has fewer (reference word {:#010x})",
        prev.0
    )
}
