//! The reference count of a page: the atomic shell around [`refword`](crate::refword).
//!
//! What. A count whose users may hold nothing yet when they ask for a reference ([`RefCount::try_get`]):
//! the page may be dead (free, or the tail of a block) or frozen (somebody has it alone). Two schemes
//! share one interface and one set of ordering guarantees: [`LockBit`], whose try is a single
//! fetch-and-add, and [`CasLoop`], the baseline, which adds unless zero.
//!
//! Place. Called by the frame pool (allocate, free), by the frame handles, by page lookup and by
//! whoever freezes (reclaim, migration, splitting). Calls nothing.
//!
//! # Protocol
//!
//! A page is *locked* (dead or frozen) or *live*.
//!
//! 1. Allocation owns a locked page and stores a count ([`set`](RefCount::set)): that alone unlocks it.
//! 2. A user tries ([`try_get`](RefCount::try_get)); who has a reference may take more
//!    ([`get`](RefCount::get)).
//!    - `LockBit`: adds, then looks. A locked result means that it failed; what it added is junk, and
//!      it attempts once to put the bare lock back, so that junk does not pile up.
//!    - `CasLoop`: compares and swaps until it has added to a count that was not zero.
//! 3. A user puts ([`put`](RefCount::put)). Told [`Put::Kept`], it must not touch the page again. Told
//!    [`Put::Last`], it alone owns the page, which is locked, and has to free it.
//!    - `LockBit`: subtracts; at zero it tries to replace 0 with the lock, and only who succeeds is last.
//!      A try that comes between revives the page, and then its put decides.
//!    - `CasLoop`: who subtracts down to zero is last.
//! 4. Who wants the page alone freezes it at the count that it can explain
//!    ([`freeze`](RefCount::freeze)), and unfreezes it with the count that it leaves
//!    ([`unfreeze`](RefCount::unfreeze)). A freer that believes that it holds the only reference locks
//!    the page in one step ([`free_if_unique`](RefCount::free_if_unique)), and puts if that fails.
//! 5. A page that was freed stays locked until 1.
//!
//! A try may come late: after the page that it looked for was freed, even after the frame was
//! allocated again. Then it holds a *stray* reference until it has noticed. So any put may be the
//! last one of any allocation, and a freeze can fail although nobody uses the page (the caller's
//! retries have to be bounded).
//!
//! # Invariants
//!
//! - I1. Each locking of a page has one owner: the put that was told `Last`, the freeze that returned
//!   true, or the allocator that made it so. Until it stores a count nobody else gets a reference.
//! - I2. While somebody holds a reference the page is not locked and its count is the number of
//!   references (and of tries that are about to give theirs back, above [`MAX_REFS`]).
//! - I3. Tries never move the lock bit, however many fail, and never lose a reference that anybody
//!   holds: I1 of [`refword`](crate::refword).
//! - I4. With no try in flight the word of a locked page is the bare lock: the last addition's reset
//!   can only have failed against another reset.
//! - I5. `LockBit`: the word is zero only between a put's subtraction and the same put's CAS. Zero
//!   while nobody is in a put would be a live page without owner, so free pages are made locked.
//!
//! # Ordering edges
//!
//! Who wins is decided by one location, so coherence and atomicity are enough for it. The edges are
//! about the data behind the count. All read-modify-writes continue each other's release sequences.
//!
//! - E1. `put` (release) to the [`Put::Last`] of whoever is last, and to the `freeze` that succeeds
//!   after it (acquire): what users did to the page happens before it is freed or changed.
//! - E2. `set` and `unfreeze` (release) to the try that succeeds (acquire): who gets a reference sees
//!   the page as it was published.
//! - E3. A `freeze` that succeeds (release) to the try that fails because of it (acquire): a lookup
//!   that failed and starts again sees what the freezer had changed before, e.g. the emptied slot.
//!
//! `count` and `is_locked` are hints and order nothing. Who publishes a mark and then *reads* a count,
//! against a user who takes a reference and then reads the mark (store buffering), needs a sequentially
//! consistent fence on both sides, between the two steps; no operation here contains one.
//!
//! # Progress and failure
//!
//! `LockBit`: every operation is wait-free, except the cold loops of tries beside the limits, which are
//! lock-free and say what bounds them. `CasLoop`: tries are lock-free. Too many references are refused
//! ([`TryGet::Saturated`]) or abort the process (`get`), as `Arc` does. A put or get without a reference
//! is a bug of the caller: it is detected, the word is repaired as well as can be (the page is rather
//! leaked than freed twice), and it panics.
//!
//! Proved by: `tests/refcount.rs` (behaviour, a naive twin, overflow, misuse, stress) and
//! `tests/loom_refcount.rs` (one model a race, each with broken twins that it rejects).
//!
//! Source: Linux memory-management list, "mm: improve folio refcount scalability" (December 2025).

#![allow(unsafe_code)] // The schemes promise what handles rely on; and the view of a word in shared memory.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU8;

use pagewell_sync::atomic::{AtomicU32, Ordering};

use crate::words::refword::{
    AddUnlessZero, Added, CasLoopWord, GiveBack, Got, LockBitWord, MAX_REFS, Subtracted,
};

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

/// How references are counted in a word: [`LockBit`] or [`CasLoop`].
///
/// The methods are what [`RefCount`] forwards to, after it has checked the arguments; they are public
/// so that the models can run broken twins. Use [`RefCount`].
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

/// Ends the process: there are more references than any correct program has.
#[cold]
#[inline(never)]
fn overflow() -> ! {
    // Not a panic: unwinding code goes on counting, and the word must never carry into the lock bit.
    std::process::abort()
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
