//! Contract of a reference-counting scheme, and the results of its operations.

#![allow(unsafe_code)] // `RefScheme` is an unsafe trait.

use std::fmt;

use pagewell_sync::atomic::{AtomicU32, store_release};

/// Result of trying to acquire references.
#[must_use = "acquired references must be put"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryGet {
    /// The caller holds the references.
    Taken,
    /// The page is free or frozen. The caller holds no new reference.
    Locked,
    /// The page would have more references than the maximum. The caller holds no new reference.
    Saturated,
}

impl TryGet {
    /// Returns `true` if the caller holds the references.
    #[inline]
    pub fn is_taken(self) -> bool {
        self == Self::Taken
    }
}

/// Result of putting references.
#[must_use = "the caller that puts the last reference must free the page"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Other threads hold references or own the page. The caller must not access the page again.
    Kept,
    /// The page is locked, and the caller owns it and must free it.
    Last,
}

impl Put {
    /// Returns `true` if the caller owns the page and must free it.
    #[inline]
    pub fn is_last(self) -> bool {
        self == Self::Last
    }
}

/// Reference-counting scheme, used through [`RefCount`](super::refcount::RefCount), which checks
/// the arguments. The methods are public for the broken twins of the models.
///
/// # Safety
///
/// Holders of references rely on the scheme for memory safety. An implementation must
/// - (A) let at most one caller own the page: by `Last`, by a freeze, or by creating the word;
/// - (B) fail every `try_get` while the page has an owner;
/// - (C) return `Last` to no caller, and let no freeze succeed, while references other than those
///   that the caller gives up were acquired and not dropped;
/// - (D) order accesses under references before accesses by the next owner, and accesses by an
///   owner before accesses under later references.
pub unsafe trait RefScheme: fmt::Debug + Copy + Send + Sync + 'static {
    /// Name of the scheme in reports.
    const NAME: &'static str;

    #[doc(hidden)]
    const LOCKED: u32;

    #[doc(hidden)]
    fn is_locked(word: &AtomicU32) -> bool;
    #[doc(hidden)]
    fn count(word: &AtomicU32) -> u32;
    #[doc(hidden)]
    fn try_add(word: &AtomicU32, n: u32) -> TryGet;
    #[doc(hidden)]
    fn get(word: &AtomicU32);
    #[doc(hidden)]
    fn sub_and_test(word: &AtomicU32, n: u32) -> Put;
    #[doc(hidden)]
    fn freeze(word: &AtomicU32, expected: u32) -> bool;

    #[doc(hidden)]
    #[inline]
    fn store(word: &AtomicU32, n: u32) {
        // ORDERING: Release, E2: pairs with the acquire of a `try_get` from this count.
        store_release(word, n);
    }
}

/// Aborts the process, because more references exist than any correct program has.
#[cold]
#[inline(never)]
pub(super) fn overflow() -> ! {
    // Unwinding after a panic would keep counting, possibly into the lock bit.
    std::process::abort()
}
