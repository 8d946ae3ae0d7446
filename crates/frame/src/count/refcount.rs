//! The reference count of a page: atomic operations on [`refword`](crate::refword).
//!
//! [`RefCount::try_get`] requires no reference: the page may be free, the tail of a block, or
//! frozen. Two schemes have one interface and the same ordering: [`LockBit`], whose `try_get` is a
//! single fetch-and-add, and [`CasLoop`], the baseline, which adds unless the count is zero.
//! [`AssumeOne`] is `CasLoop` without the load that precedes its compare-and-swap.
//!
//! # Protocol
//!
//! A page is *locked* (free or frozen) or *live*.
//!
//! 1. The allocator owns a locked page, and unlocks it by storing a count ([`set`](RefCount::set)).
//! 2. A user calls [`try_get`](RefCount::try_get); a holder may call [`get`](RefCount::get).
//!    - `LockBit`: adds, then checks the result. If the word is locked, the `try_get` has failed,
//!      and its addition is junk. One attempt to restore the bare lock limits the junk.
//!    - `CasLoop`: compares and swaps until it has added to a count that was not zero.
//! 3. A user puts its reference ([`put`](RefCount::put)). After [`Put::Kept`] it must not access
//!    the page again. After [`Put::Last`] it owns the page, which is locked, and must free it.
//!    - `LockBit`: subtracts. At zero it tries to replace 0 with the lock, and is last only if that
//!      succeeds. A `try_get` in between revives the page, and its put decides.
//!    - `CasLoop`: the put that subtracts down to zero is last.
//! 4. A thread that needs exclusive access freezes the page at the count that it can account for
//!    ([`freeze`](RefCount::freeze)), and unfreezes it with the count that it leaves
//!    ([`unfreeze`](RefCount::unfreeze)). To free a page to which it may hold the only reference, a
//!    thread locks it in one step, or else puts ([`free_if_unique`](RefCount::free_if_unique)).
//! 5. A freed page stays locked until step 1.
//!
//! A `try_get` may be late: the frame may have been freed and allocated again. Until it is put,
//! such a reference is *stray*. So any put may be the last one of a later allocation, and a freeze
//! can fail without another user and is retried a bounded number of times.
//!
//! # Invariants
//!
//! - I1. Each locking gives the page one owner: the put that returned `Last`, the freeze that
//!   returned `true`, or the allocator that created the page locked. No other thread gets a
//!   reference until that owner stores a count.
//! - I2. While a reference exists, the page is not locked, and its count is the number of
//!   references (plus, above [`MAX_REFS`], those that `try_get`s are about to subtract).
//! - I3. `try_get`s never change the lock bit, however many fail, and never lose a reference of
//!   another thread: I1 of [`refword`](crate::refword).
//! - I4. With no `try_get` in flight, the word of a locked page is the bare lock: if the reset by
//!   the thread that added last failed, another thread's reset succeeded.
//! - I5. `LockBit`: the word is zero only between a put's subtraction and its CAS. At any other
//!   time such a page would be live without an owner, so free pages are created locked.
//!
//! # Ordering edges
//!
//! All operations access one word, whose modification order alone decides which thread owns the
//! page. All read-modify-writes continue each other's release sequences. For the page's data:
//!
//! - E1. A `put` (release) synchronizes with the last put ([`Put::Last`]), with a later `freeze`
//!   that succeeds, and with a later `has_one_reference` that returns `true` (all acquire):
//!   accesses under references happen before the free or the change.
//! - E2. `set` and `unfreeze` (release) synchronize with a `try_get` that succeeds (acquire), whose
//!   caller sees the page as it was published.
//! - E3. A `freeze` that succeeds (release) synchronizes with a `try_get` that fails because of it
//!   (acquire): the next lookup sees the freezing thread's changes, e.g. the emptied slot.
//!
//! `count` and `is_locked` are hints without ordering. A thread that publishes a flag and then
//! *loads* a count needs a sequentially consistent fence in between, as does one that acquires a
//! reference and then loads the flag (store buffering). No operation here contains one.
//!
//! # Progress and failure
//!
//! `LockBit` is wait-free, except for the cold loops of `try_get`s near the limits, which are
//! lock-free and state their bounds. `CasLoop`: `try_get`s are lock-free. Too many references are
//! refused ([`TryGet::Saturated`]) or abort the process (`get`), as in `Arc`. A put or get without
//! a reference repairs the word (a page is leaked, not freed twice), and panics.
//!
//! Verified by `tests/refcount.rs` and `tests/loom_refcount` (a model per race, with broken twins).
//! Source: linux-mm, "mm: improve folio refcount scalability" (December 2025).

#![allow(unsafe_code)] // `from_atomic`.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU8;

use pagewell_sync::atomic::{AtomicU32, Ordering};

pub use crate::count::cas_loop::{AssumeOne, CasLoop};
pub use crate::count::lock_bit::LockBit;
pub use crate::count::scheme::{Put, RefScheme, TryGet};
use crate::words::refword::MAX_REFS;

/// Scheme in which frames count their references: [`LockBit`], or [`CasLoop`] in a build with
/// `--cfg pagewell_ref_scheme="cas_loop"`.
#[cfg(not(pagewell_ref_scheme = "cas_loop"))]
pub type Scheme = LockBit;

/// Scheme in which frames count their references: [`CasLoop`] in this build.
#[cfg(pagewell_ref_scheme = "cas_loop")]
pub type Scheme = CasLoop;

/// Reference count of a page, in scheme `S`. The caller follows the protocol of the [module](self):
/// it puts each reference once, and unfreezes or frees each page that it has frozen.
#[repr(transparent)]
pub struct RefCount<S: RefScheme = Scheme> {
    word: AtomicU32,
    scheme: PhantomData<S>,
}

impl<S: RefScheme> RefCount<S> {
    /// Creates the count of a page that is free or a tail. A `try_get` fails until it is set.
    #[inline]
    pub fn new_locked() -> Self {
        Self::from_raw(S::LOCKED)
    }

    /// Creates the count of a page with `n` references, from 1 to [`MAX_REFS`].
    #[inline]
    pub fn new(n: u32) -> Self {
        assert_live(n);
        Self::from_raw(n)
    }

    #[doc(hidden)]
    #[inline]
    pub fn from_raw(word: u32) -> Self {
        Self {
            word: AtomicU32::new(word),
            scheme: PhantomData,
        }
    }

    #[doc(hidden)]
    #[inline]
    pub fn raw(&self) -> u32 {
        // ORDERING: Relaxed; only tests call this.
        self.word.load(Ordering::Relaxed)
    }

    /// Interprets `word` as a count, for example in memory that processes share. `word` must come
    /// from a count of the same scheme, unless the caller first calls [`set`](Self::set).
    #[inline]
    pub fn from_atomic(word: &AtomicU32) -> &Self {
        let count = std::ptr::from_ref(word).cast::<Self>();
        // SAFETY: `Self` is a transparent wrapper of an `AtomicU32`. Memory safety relies on no
        // value of the word. The result borrows `word`.
        unsafe { &*count }
    }

    /// Tries to acquire a reference. On success the caller must check that the page is the one that
    /// it looked up, else put the reference. Memory order: acquire (E2; E3 if the page is locked).
    #[inline]
    pub fn try_get(&self) -> TryGet {
        S::try_add(&self.word, 1)
    }

    /// Tries to acquire `n` references at once: all or none.
    #[inline]
    pub fn try_add(&self, n: NonZeroU8) -> TryGet {
        S::try_add(&self.word, u32::from(n.get()))
    }

    /// Acquires one more reference, for a holder of one. Aborts the process at [`MAX_REFS`]. Panics
    /// if the page is locked or has no reference, so the caller cannot have held one.
    #[inline]
    pub fn get(&self) {
        S::get(&self.word);
    }

    /// Puts a reference. Memory order: release; acquire if it was the last. Panics like `get`.
    #[inline]
    pub fn put(&self) -> Put {
        self.sub_and_test(1)
    }

    /// Puts `n` references, from 1 to [`MAX_REFS`]. Memory order: as for [`put`](Self::put). Panics
    /// if the page is locked or has fewer than `n` references.
    #[inline]
    pub fn sub_and_test(&self, n: u32) -> Put {
        assert_live(n);
        S::sub_and_test(&self.word, n)
    }

    /// Locks the page if it has exactly `expected` references (from 1 to [`MAX_REFS`]), which the
    /// caller must account for from then on. Memory order: acquire and release on success. Fails if
    /// a stray reference exists, so the caller may retry a bounded number of times.
    #[inline]
    #[must_use = "only the caller that froze the page may access it exclusively"]
    pub fn freeze(&self, expected: u32) -> bool {
        assert_live(expected);
        S::freeze(&self.word, expected)
    }

    /// Ends a freeze with `n` references, 1 to [`MAX_REFS`], for the caller. Memory order: release.
    #[inline]
    pub fn unfreeze(&self, n: u32) {
        assert_live(n);
        debug_assert!(self.is_locked(), "unfreeze of a page that is not frozen");
        S::store(&self.word, n);
    }

    /// Locks the page, which the caller must then free, if the caller's reference is the only one.
    #[inline]
    #[must_use = "on `false` the caller still holds its reference and must put it"]
    pub fn free_if_unique(&self) -> bool {
        S::freeze(&self.word, 1)
    }

    /// Returns the number of references, or 0 if the page was locked. A hint without ordering.
    #[inline]
    pub fn count(&self) -> u32 {
        S::count(&self.word)
    }

    /// Returns `true` if there is one reference. The caller must have synchronized with each
    /// `try_get` and `get` that succeeded, for example by a lock under which all are called;
    /// otherwise the answer may be outdated. Memory order of `true`: acquire, so that accesses
    /// under the references that were put happen before what follows.
    #[inline]
    pub fn has_one_reference(&self) -> bool {
        let has_one = self.count() == 1;
        if has_one {
            // ORDERING: Acquire, E1: reads the value that `count` read or a later one, so all puts
            // before that value synchronize. A load, since ThreadSanitizer models no fences.
            let _ = self.word.load(Ordering::Acquire);
        }
        has_one
    }

    /// Gives a newly allocated page `n` references, 1 to [`MAX_REFS`]. Memory order: release.
    #[inline]
    pub fn set(&self, n: u32) {
        assert_live(n);
        S::store(&self.word, n);
    }

    /// Returns `true` if the page was free or frozen. A hint without ordering.
    #[inline]
    pub fn is_locked(&self) -> bool {
        S::is_locked(&self.word)
    }
}

#[inline]
#[track_caller]
fn assert_live(n: u32) {
    assert!(
        n.wrapping_sub(1) < MAX_REFS,
        "invalid number of references: {n}"
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
