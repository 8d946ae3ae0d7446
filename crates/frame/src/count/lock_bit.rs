//! The scheme with a lock bit: a try is one fetch-and-add. The protocol is at the top of [`super::refcount`].

#![allow(unsafe_code)] // It promises what handles rely on.

use pagewell_sync::atomic::{AtomicU32, Ordering};

use crate::count::scheme::{Put, RefScheme, TryGet, overflow};
use crate::words::refword::{Added, GiveBack, Got, LockBitWord, Subtracted};

/// Locked is bit 31, so that a try is one fetch-and-add.
#[derive(Debug, Clone, Copy)]
pub enum LockBit {}

// SAFETY: (A) to (D) are the invariants of the module's text, which the models check.
unsafe impl RefScheme for LockBit {
    const NAME: &'static str = "lock-bit";
    const LOCKED: u32 = LockBitWord::LOCKED.0;

    #[inline]
    fn is_locked(word: &AtomicU32) -> bool {
        // ORDERING: Relaxed; a hint, which orders nothing.
        LockBitWord(word.load(Ordering::Relaxed)).is_locked()
    }

    #[inline]
    fn count(word: &AtomicU32) -> u32 {
        // ORDERING: Relaxed; a hint, which orders nothing.
        LockBitWord(word.load(Ordering::Relaxed)).count()
    }

    #[inline]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet {
        // ORDERING: Acquire, E2 (from set and unfreeze, if it takes) and E3 (from freeze, if it fails).
        // It publishes nothing: the references' user has not done anything yet.
        let prev = LockBitWord(word.fetch_add(n, Ordering::Acquire));
        if prev.admits(n) {
            TryGet::Taken
        } else {
            not_admitted(word, prev, n)
        }
    }

    #[inline]
    fn get(word: &AtomicU32) {
        // ORDERING: Relaxed; the caller's reference came with what it needs to see.
        let prev = LockBitWord(word.fetch_add(1, Ordering::Relaxed));
        match prev.after_get() {
            Got::Counted => {}
            Got::Overflow => overflow(),
            Got::Misuse => get_of_nothing(word, prev),
        }
    }

    #[inline]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put {
        // ORDERING: Release, E1: partner is the acquire of the CAS below, of this or another put, or
        // that of freeze; it publishes what the references' users did to the page.
        let prev = LockBitWord(word.fetch_sub(n, Ordering::Release));
        match prev.after_sub(n) {
            Subtracted::Kept => Put::Kept,
            // A try may have revived the page since, and its put may even have locked it since: then
            // this CAS fails and the page is not ours to free. If it was freed, allocated and put down
            // to zero again in the meantime, the CAS may win in place of that put's, and ours is the
            // last put of that allocation.
            // ORDERING: Acquire, E1: partners are the releases of all puts whose subtractions led to
            // this zero. Relaxed on failure: the caller learns nothing but to keep off.
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
        // ORDERING: AcqRel; acquire is E1 (from the puts that brought the count down to what was
        // expected), release is E3 (to the tries that fail). Relaxed on failure: nothing was learned.
        word.compare_exchange(expected, Self::LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// A try that added to a word which does not admit it: the page is locked, or at its limit.
#[cold]
#[inline(never)]
fn not_admitted(word: &AtomicU32, prev: LockBitWord, n: u32) -> TryGet {
    match prev.after_add(n) {
        Added::Taken => TryGet::Taken,
        Added::Locked { seen } => {
            // One attempt is enough as long as there is little junk: if it fails, somebody else added
            // after us and resets too, or reset already, or the page was unlocked by a store.
            // ORDERING: Relaxed; junk means nothing to anybody (refword's I2).
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

/// Replaces `seen`, a locked word with too much junk, with the bare lock, until that was done by
/// somebody or the page is not locked any more.
///
/// Bound: the CAS fails only if another thread changed the word. While it stays high such a change is
/// an addition, and who made it is in this loop too, so each of the other threads can fail us once
/// until one of the resets succeeds; after that the word is low, and everybody leaves.
#[cold]
fn reset_for_certain(word: &AtomicU32, mut seen: u32) {
    // ORDERING: Relaxed; junk means nothing to anybody (refword's I2).
    while let Err(now) =
        word.compare_exchange(seen, LockBit::LOCKED, Ordering::Relaxed, Ordering::Relaxed)
    {
        if !LockBitWord(now).is_locked_high() {
            break;
        }
        seen = now;
    }
}

/// Gives back the `n` references of a try that went over the limit, unless others left meanwhile.
///
/// Bound: the CAS fails only if another thread changed the word, and while it stays above the limit
/// that is a put, or a try which itself gives back: each of the other threads adds at most once.
#[cold]
fn give_back(word: &AtomicU32, mut seen: u32, n: u32) -> TryGet {
    loop {
        match LockBitWord(seen).give_back(n) {
            GiveBack::Keep => return TryGet::Taken,
            GiveBack::Replace(without) => {
                // ORDERING: Relaxed; the references were not used, so there is nothing to publish.
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

/// A get by a caller that holds no reference.
#[cold]
#[inline(never)]
fn get_of_nothing(word: &AtomicU32, prev: LockBitWord) -> ! {
    if prev.is_locked() {
        // What was added is junk, as after a try that failed.
        let _ = not_admitted(word, prev, 1);
    } else {
        // A page at zero is being freed, and the addition may have revived it. If this put is the last
        // one the page is leaked.
        let _ = LockBit::sub_and_test(word, 1);
    }
    panic!(
        "get of a page without references (reference word {:#010x})",
        prev.0
    )
}

/// A put of `n` references of which not all were there.
#[cold]
#[inline(never)]
fn put_of_nothing(word: &AtomicU32, prev: LockBitWord, n: u32) -> ! {
    let repaired = prev.repaired().0;
    let mut seen = prev.0.wrapping_sub(n);
    // Bound: the CAS fails only if another thread changed the word, and the loop ends as soon as that
    // was a store or a reset, which leave a sane word. Other misused puts may make it repeat.
    // ORDERING: Relaxed; a repair of the count only, after a bug.
    while let Err(now) = word.compare_exchange(seen, repaired, Ordering::Relaxed, Ordering::Relaxed)
    {
        if LockBitWord(now).is_sane() {
            break;
        }
        seen = now;
    }
    panic!(
        "put of {n} references that the page does not have (reference word {:#010x})",
        prev.0
    )
}
