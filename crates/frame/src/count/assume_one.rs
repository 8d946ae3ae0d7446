//! A second baseline scheme: [`CasLoop`], whose `try_get` expects a count of 1.

#![allow(unsafe_code)] // `RefScheme` is an unsafe trait.

use pagewell_sync::atomic::AtomicU32;

use crate::count::cas_loop::{CasLoop, try_add_expecting};
use crate::count::scheme::{Put, RefScheme, TryGet};

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
