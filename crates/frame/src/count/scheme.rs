//! How references are counted in a word: what a scheme promises, and the outcomes of its operations.

#![allow(unsafe_code)] // A trait whose implementations promise what handles rely on.

use std::fmt;

use pagewell_sync::atomic::{AtomicU32, Ordering};

/// The outcome of a try to take references.
#[must_use = "references that were taken have to be put"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryGet {
    /// The caller has the references.
    Taken,
    /// The page is dead or frozen; nothing was taken.
    Locked,
    /// The page has as many references as it may have; nothing was taken.
    Saturated,
}

impl TryGet {
    /// Whether the caller has the references.
    #[inline]
    pub fn is_taken(self) -> bool {
        self == Self::Taken
    }
}

/// The outcome of giving references up.
#[must_use = "who puts the last reference has to free the page"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The page is somebody else's matter; the caller must not touch it again.
    Kept,
    /// The page is locked and the caller owns it, to free it.
    Last,
}

impl Put {
    /// Whether the caller owns the page and has to free it.
    #[inline]
    pub fn is_last(self) -> bool {
        self == Self::Last
    }
}

/// How references are counted in a word: [`LockBit`](super::refcount::LockBit) or [`CasLoop`](super::refcount::CasLoop).
///
/// The methods are what [`RefCount`](super::refcount::RefCount) forwards to, after it has checked the arguments; they are public
/// so that the models can run broken twins. Use [`RefCount`](super::refcount::RefCount).
///
/// # Safety
///
/// Whoever holds a reference relies on it for memory safety, so an implementation must (A) let at most
/// one caller own the page: the one that was told `Last`, or whose freeze has succeeded, or that made the
/// word; (B) fail every try while it has an owner; (C) tell nobody `Last`, and let no freeze succeed, while
/// there are references that were taken and not dropped, beyond those that the caller gives up; (D) order
/// what was done under references before what their owner does, and what the owner has done before what is
/// done under the references that come after.
pub unsafe trait RefScheme: fmt::Debug + Copy + Send + Sync + 'static {
    /// The scheme's name in reports.
    const NAME: &'static str;

    /// The word of a locked page.
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

    /// The store of `unfreeze` and of `set`.
    #[doc(hidden)]
    #[inline]
    fn store(word: &AtomicU32, n: u32) {
        // ORDERING: Release, E2: partner is the acquire of the try that takes a reference from this
        // count; it publishes the page as the allocator or the freezer made it.
        #[cfg(not(loom))]
        word.store(n, Ordering::Release);
        // loom may order a plain store into the middle of a concurrent read-modify-write, which the
        // memory model excludes; a swap has the same outcomes without that one.
        // ORDERING: as above.
        #[cfg(loom)]
        word.swap(n, Ordering::Release);
    }
}

/// Ends the process: there are more references than any correct program has.
#[cold]
#[inline(never)]
pub(super) fn overflow() -> ! {
    // Not a panic: unwinding code goes on counting, and the word must never carry into the lock bit.
    std::process::abort()
}
