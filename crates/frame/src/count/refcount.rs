//! The reference count of a page: the atomic shell around [`refword`](crate::refword).
//!
//! What. A count whose users may hold nothing yet when they ask for a reference ([`RefCount::try_get`]):
//! the page may be dead (free, or the tail of a block) or frozen (one thread has it alone). Two schemes
//! share one interface and one set of ordering guarantees: [`LockBit`], whose try is a single
//! fetch-and-add, and [`CasLoop`], the baseline, which adds unless zero.
//!
//! Place. Called by the frame pool (allocate, free), by the frame handles, by page lookup and by
//! operations that freeze (reclaim, migration, splitting). Calls nothing.
//!
//! # Protocol
//!
//! A page is *locked* (dead or frozen) or *live*.
//!
//! 1. Allocation owns a locked page and stores a count ([`set`](RefCount::set)): that alone unlocks it.
//! 2. A user tries ([`try_get`](RefCount::try_get)); a user with a reference may take more
//!    ([`get`](RefCount::get)).
//!    - `LockBit`: adds, then looks at the result. If it is locked, the try failed, and its addition is junk. The try
//!      attempts once to put the bare lock back, so that junk does not pile up.
//!    - `CasLoop`: compares and swaps until it has added to a count that was not zero.
//! 3. A user puts ([`put`](RefCount::put)). Told [`Put::Kept`], it must not touch the page again. Told
//!    [`Put::Last`], it alone owns the page, which is locked, and has to free it.
//!    - `LockBit`: subtracts; at zero it tries to replace 0 with the lock, and it is last only if that succeeds.
//!      A try that comes between revives the page, and then its put decides.
//!    - `CasLoop`: the put that subtracts down to zero is last.
//! 4. A thread that wants the page alone freezes it at the count that it can explain
//!    ([`freeze`](RefCount::freeze)), and unfreezes it with the count that it leaves
//!    ([`unfreeze`](RefCount::unfreeze)). A freer that believes that it holds the only reference locks
//!    the page in one step ([`free_if_unique`](RefCount::free_if_unique)), and puts if that fails.
//! 5. A page that was freed stays locked until 1.
//!
//! A try may come late: after the page that it wanted was freed, even after the frame was
//! allocated again. Then it holds a *stray* reference until it has noticed. So any put may be the
//! last one of any allocation, and a freeze can fail although nobody uses the page (so the caller
//! must bound its retries).
//!
//! # Invariants
//!
//! - I1. Each locking of a page has one owner: the put that was told `Last`, the freeze that returned
//!   true, or the allocator that made it so. Until that owner stores a count nobody else gets a reference.
//! - I2. While there is a reference the page is not locked and its count is the number of
//!   references (and of tries that are about to give theirs back, above [`MAX_REFS`]).
//! - I3. Tries never move the lock bit, however many fail, and never lose a reference that another thread
//!   holds: I1 of [`refword`](crate::refword).
//! - I4. With no try in flight the word of a locked page is the bare lock: the last addition's reset
//!   can only have failed against another reset.
//! - I5. `LockBit`: the word is zero only between a put's subtraction and the same put's CAS. A zero
//!   outside of a put would be a live page without owner, so free pages are made locked.
//!
//! # Ordering edges
//!
//! One location decides who wins, so coherence and atomicity are enough for that. The edges are
//! about the data behind the count. All read-modify-writes continue each other's release sequences.
//!
//! - E1. `put` (release) to the [`Put::Last`] of the last put, and to the `freeze` that succeeds
//!   after it (acquire): the users' accesses to the page happen before it is freed or changed.
//! - E2. `set` and `unfreeze` (release) to the try that succeeds (acquire): a thread that gets a reference sees
//!   the page as it was published.
//! - E3. A `freeze` that succeeds (release) to the try that fails because of it (acquire): a lookup
//!   that failed and starts again sees what the freezer had changed before, e.g. the emptied slot.
//!
//! `count` and `is_locked` are hints and order nothing. If one thread publishes a mark and then *reads* a count,
//! and another takes a reference and then reads the mark (store buffering), both sides need a sequentially
//! consistent fence between their two steps; no operation here contains one.
//!
//! # Progress and failure
//!
//! `LockBit`: every operation is wait-free, except the cold loops of tries beside the limits, which are
//! lock-free and say what bounds them. `CasLoop`: tries are lock-free. Too many references are refused
//! ([`TryGet::Saturated`]) or abort the process (`get`), as `Arc` does. A put or get without a reference
//! is a bug of the caller: it is detected, the word is repaired as well as possible (the page is rather
//! leaked than freed twice), and the operation panics.
//!
//! Proved by: `tests/refcount.rs` (behaviour, a naive twin, overflow, misuse, stress) and
//! `tests/loom_refcount.rs` (one model a race, each with broken twins that it rejects).
//!
//! Source: Linux memory-management list, "mm: improve folio refcount scalability" (December 2025).

#![allow(unsafe_code)] // The view of a word in shared memory.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU8;

use pagewell_sync::atomic::{AtomicU32, Ordering};

pub use crate::count::cas_loop::CasLoop;
pub use crate::count::lock_bit::LockBit;
pub use crate::count::scheme::{Put, RefScheme, TryGet};
use crate::words::refword::MAX_REFS;

/// The reference count of a page, counted by scheme `S`.
///
/// It counts and decides; it does not know the page. Whoever calls it keeps the protocol of the
/// [module](self): a reference taken is put once, a freeze is unfrozen or the page freed.
#[repr(transparent)]
pub struct RefCount<S: RefScheme = LockBit> {
    word: AtomicU32,
    scheme: PhantomData<S>,
}

impl<S: RefScheme> RefCount<S> {
    /// The count of a page that is free, or the tail of a block: no try succeeds.
    #[inline]
    pub fn new_locked() -> Self {
        Self::from_raw(S::LOCKED)
    }

    /// The count of a page with `n` references, from 1 to [`MAX_REFS`].
    #[inline]
    pub fn new(n: u32) -> Self {
        assert_live(n);
        Self::from_raw(n)
    }

    /// A count whose word has any value, legal or not.
    #[doc(hidden)]
    #[inline]
    pub fn from_raw(word: u32) -> Self {
        Self {
            word: AtomicU32::new(word),
            scheme: PhantomData,
        }
    }

    /// The word, whatever it means.
    #[doc(hidden)]
    #[inline]
    pub fn raw(&self) -> u32 {
        // ORDERING: Relaxed; for tests, which have ordered themselves.
        self.word.load(Ordering::Relaxed)
    }

    /// The count in `word`, e.g. in memory that processes share. Before its first use the word was
    /// made by a count of the same scheme, or is given its value by [`set`](Self::set).
    #[inline]
    pub fn from_atomic(word: &AtomicU32) -> &Self {
        let count = std::ptr::from_ref(word).cast::<Self>();
        // SAFETY: `Self` is a transparent wrapper of an `AtomicU32` and a zero-sized marker, and has no
        // invariant that memory safety rests on; the lifetime is that of the borrow.
        unsafe { &*count }
    }

    /// Takes a reference of a page to which the caller may have no right any more.
    ///
    /// Acquire, whether it is taken or locked. After success look again whether it is still the page
    /// that was looked for, and put the reference if not.
    #[inline]
    pub fn try_get(&self) -> TryGet {
        S::try_add(&self.word, 1)
    }

    /// Takes `n` references at once, or none.
    #[inline]
    pub fn try_add(&self, n: NonZeroU8) -> TryGet {
        S::try_add(&self.word, u32::from(n.get()))
    }

    /// Takes one more reference. The caller holds one already.
    ///
    /// Aborts the process if there are [`MAX_REFS`] already.
    ///
    /// # Panics
    /// If the page is locked or without references: the caller held none.
    #[inline]
    pub fn get(&self) {
        S::get(&self.word);
    }

    /// Gives one reference up. Release; acquire if it was the last one.
    ///
    /// # Panics
    /// If the page is locked or without references: the caller held none.
    #[inline]
    pub fn put(&self) -> Put {
        self.sub_and_test(1)
    }

    /// Gives `n` references up, from 1 to [`MAX_REFS`]. Release; acquire if they were the last ones.
    ///
    /// # Panics
    /// If the page is locked or has fewer references: the caller did not hold them.
    #[inline]
    pub fn sub_and_test(&self, n: u32) -> Put {
        assert_live(n);
        S::sub_and_test(&self.word, n)
    }

    /// Locks the page if it has exactly `expected` references (from 1 to [`MAX_REFS`]), which are the
    /// caller's to account for from then on. Acquire and release if it succeeds.
    ///
    /// It may fail because of a stray reference that will be gone in a moment: retry, a bounded number
    /// of times.
    #[inline]
    #[must_use = "only who froze the page may touch it alone"]
    pub fn freeze(&self, expected: u32) -> bool {
        assert_live(expected);
        S::freeze(&self.word, expected)
    }

    /// Ends a freeze: the page has `n` references, from 1 to [`MAX_REFS`]. Release.
    #[inline]
    pub fn unfreeze(&self, n: u32) {
        assert_live(n);
        debug_assert!(self.is_locked(), "unfreeze of a page that is not frozen");
        S::store(&self.word, n);
    }

    /// Locks the page in one step if the caller's reference is the only one; the caller then owns it,
    /// to free it. If not, the caller still has its reference, and puts it.
    #[inline]
    #[must_use = "if it was not freed, the reference is still to be put"]
    pub fn free_if_unique(&self) -> bool {
        S::freeze(&self.word, 1)
    }

    /// How many references there were a moment ago; 0 if the page was locked. A hint, without ordering.
    #[inline]
    pub fn count(&self) -> u32 {
        S::count(&self.word)
    }

    /// Gives a locked page that the caller owns (it allocates it) `n` references, from 1 to
    /// [`MAX_REFS`]. Release.
    #[inline]
    pub fn set(&self, n: u32) {
        assert_live(n);
        S::store(&self.word, n);
    }

    /// Whether the page was dead or frozen a moment ago. A hint, without ordering.
    #[inline]
    pub fn is_locked(&self) -> bool {
        S::is_locked(&self.word)
    }
}

/// Checks a number of references that a caller states.
#[inline]
#[track_caller]
fn assert_live(n: u32) {
    assert!(
        n.wrapping_sub(1) < MAX_REFS,
        "not a number of references: {n}"
    );
}

impl<S: RefScheme> fmt::Debug for RefCount<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RefCount");
        out.field("scheme", &S::NAME);
        if self.is_locked() {
            out.field("locked", &true);
        } else {
            out.field("count", &self.count());
        }
        out.finish()
    }
}
