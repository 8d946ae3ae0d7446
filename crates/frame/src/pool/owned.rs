//! [`OwnedHold`]: a reference that borrows nothing, counted or announced; [`PoolOwner`], who leaves the pool to such references.
//!
//! A counted one has a share of what the pool is a part of. To take one, and to drop it, are writes to a count that threads share; so an announced
//! one has none. It is the pool's owner who sees to it, at its end, that the pool is kept as long as there are such references: I6 in the text of the
//! room `announce`.

#![allow(unsafe_code)] // What is kept without a share.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use pagewell_sync::Arc;
use pagewell_sync::bytes::RacySource;
use pagewell_sync::cell::Life;
use pagewell_sync::shard::{Identity, own_identity};

use super::frame_pool::FramePool;
use super::handle::FrameRef;
use crate::announce::{Ended, Exit, Keeper, Slot, Word};
use crate::count::RefScheme;
use crate::words::FrameNr;

/// What a pool is a part of.
pub trait HasPool: Send + Sync + 'static {
    /// The scheme by which the pool counts.
    type Scheme: RefScheme;

    /// The pool.
    fn pool(&self) -> &FramePool<Self::Scheme>;

    /// Whether this process is a child, made by `fork`, of the one that has made the pool: then threads may be missing that had locks of it, and
    /// nothing is given back.
    fn is_in_child(&self) -> bool;
}

/// The owner of a pool: as long as it exists, references may be taken that borrow nothing ([`OwnedHold`]). When it is dropped, it leaves the pool to
/// those that there are, and the last of them frees it. Others may have shares of the same, and keep it longer.
#[derive(Debug)]
pub struct PoolOwner<T: HasPool>(Arc<T>);

impl<T: HasPool> PoolOwner<T> {
    /// Of what is in `shared`. Whoever makes several owners of one value gets several ends.
    pub fn new(shared: Arc<T>) -> Self {
        Self(shared)
    }
}

impl<T: HasPool> Deref for PoolOwner<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: HasPool> Drop for PoolOwner<T> {
    fn drop(&mut self) {
        let keeper: Keeper = Box::new(Arc::clone(&self.0));
        if self.0.is_in_child() {
            // There is no asking who has announced what: the threads that might have are not here, and may have had the lock.
            std::mem::forget(keeper);
            return;
        }
        let pool = self.0.pool();
        let announcements = pool.announcements();
        let (_, exit) = announcements.exit();
        let let_go = match exit.enter() {
            Some(mut entered) => announcements.leave(pool.lists(), keeper, &mut entered),
            // Another owner has left it, and it has been let go of.
            None => Some(keeper),
        };
        drop(let_go);
        Life::share_goes();
    }
}

/// One reference to a block, as a [`Hold`](super::Hold), that borrows nothing: while it exists the block is there, and so is the pool, whatever
/// becomes of their owners.
///
/// It may be sent to another thread, and dropped there; and outlive the thread that has taken it. One that is leaked keeps its pool for ever.
#[repr(C)]
pub struct OwnedHold<T: HasPool> {
    /// What the pool is a part of; one that is counted has a share of it.
    shared: NonNull<T>,
    /// Where it is announced; none if it is counted.
    slot: Option<NonNull<Slot>>,
    /// As of a `Hold`.
    word: Word,
    _share: PhantomData<Arc<T>>,
}

// SAFETY: a share of a value that threads may share, a reference that any thread may give back, and the address of atomics.
unsafe impl<T: HasPool> Send for OwnedHold<T> {}
// SAFETY: as above; by a shared reference bytes are read.
unsafe impl<T: HasPool> Sync for OwnedHold<T> {}

impl<T: HasPool> OwnedHold<T> {
    /// An announced reference to `frame`, if the frame is marked, and this thread has room for one. As
    /// [`try_announce`](FramePool::try_announce).
    ///
    /// # Safety
    ///
    /// (P) `pool` of `shared` gives the same pool each time: one that exists as long as `shared` does, and is moved no more. (L) While this is called
    /// there is a [`PoolOwner`] of `shared`; it has been the only one, and is dropped in the end, or leaked.
    #[inline(always)]
    pub unsafe fn try_announce(
        shared: &Arc<T>,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Self> {
        // SAFETY: (P) and (L) are passed on.
        unsafe { Self::try_announce_as(own_identity()?, shared, frame, is_still) }
    }

    /// As [`try_announce`](Self::try_announce), of a thread that says who it is: for models of threads that come and go.
    ///
    /// # Safety
    ///
    /// As there.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn try_announce_as(
        me: Identity,
        shared: &Arc<T>,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Self> {
        let pool = shared.pool();
        let word = Word::owned(frame, me.serial());
        let slot = pool
            .announcements()
            .announce(pool.lists(), me, word, is_still)?;
        Some(Self {
            shared: NonNull::from(&**shared),
            slot: Some(NonNull::from(slot)),
            word,
            _share: PhantomData,
        })
    }

    /// The counted `reference`, with a share of what its pool is a part of.
    ///
    /// # Safety
    ///
    /// (P) as of [`try_announce`](Self::try_announce).
    ///
    /// # Panics
    ///
    /// When the reference is to a block of another pool.
    pub unsafe fn counted(shared: Arc<T>, reference: FrameRef<'_, T::Scheme>) -> Self {
        assert!(std::ptr::eq(reference.pool(), shared.pool()));
        let word = Word::new(reference.into_raw(), 0);
        Self {
            // SAFETY: no value is at zero.
            shared: unsafe { NonNull::new_unchecked(Arc::into_raw(shared).cast_mut()) },
            slot: None,
            word,
            _share: PhantomData,
        }
    }

    /// The number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.word.frame()
    }

    /// What the pool is a part of.
    #[inline]
    fn shared(&self) -> &T {
        // SAFETY: while this exists, so does what the pool is a part of: by the share of a counted reference, or (L) by the owner, or what it has
        // left for announced ones.
        unsafe { self.shared.as_ref() }
    }

    /// The pool that the block is of.
    #[inline]
    pub fn pool(&self) -> &FramePool<T::Scheme> {
        self.shared().pool()
    }

    /// Whether it is announced, and not counted.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.slot.is_some()
    }

    /// The block's bytes, as of a [`FrameRef`].
    pub fn bytes(&self) -> RacySource<'_> {
        let pool = self.pool();
        pool.announcements().used();
        let (_, order) = pool.meta(self.frame()).kind();
        pool.memory().bytes_of(self.frame(), order.bytes()).source()
    }
}

impl<T: HasPool> Drop for OwnedHold<T> {
    // As of a `Hold`: in line but for what is rare.
    #[inline(always)]
    fn drop(&mut self) {
        if self.shared().is_in_child() {
            return;
        }
        let Some(slot) = self.slot else {
            put_counted(self.shared, self.word);
            return;
        };
        // Before the announcement ends. After that, there may be no pool (I5).
        let (fences, exit) = self.pool().announcements().exit();
        // SAFETY: slots are in memory that is never freed.
        let slot = unsafe { slot.as_ref() };
        match slot.end(self.word, fences) {
            Ended::Done => {}
            Ended::Wanted => look(self.shared, &exit),
            Ended::Counted => put_handed_over(self.shared, self.word, &exit),
        }
    }
}

/// Puts a counted reference, and then the share of what its pool is a part of.
#[cold]
#[inline(never)]
fn put_counted<T: HasPool>(shared: NonNull<T>, word: Word) {
    // SAFETY: `counted` has made it of a share, which is given back once, when the reference is dropped.
    let shared = unsafe { Arc::from_raw(shared.as_ptr().cast_const()) };
    drop(FrameRef::new(shared.pool(), word.frame()));
}

/// Looks, after the end of an announcement that is wanted, if there still is the pool. Another's look may have found that it has ended, and let go of
/// the pool.
#[cold]
#[inline(never)]
fn look<T: HasPool>(shared: NonNull<T>, exit: &Exit) {
    let Some(mut entered) = exit.enter() else {
        return;
    };
    // SAFETY: the pool is kept until somebody lets go of it, who has entered; so what it is a part of is there.
    let pool = unsafe { shared.as_ref() }.pool();
    let let_go = pool
        .announcements()
        .look_entered(pool.lists(), &mut entered);
    drop(entered);
    let_share_go(let_go);
}

/// Puts the counted reference that an announcement was handed over to.
#[cold]
#[inline(never)]
fn put_handed_over<T: HasPool>(shared: NonNull<T>, word: Word, exit: &Exit) {
    // It has not ended yet: the pool is kept for it, until it has been put.
    let mut entered = exit.enter().expect("a pool that a reference keeps");
    // SAFETY: as above.
    let pool = unsafe { shared.as_ref() }.pool();
    let announcements = pool.announcements();
    let let_go = announcements.put_handed_over(pool.lists(), word.frame(), &mut entered);
    drop(entered);
    let_share_go(let_go);
}

/// Drops what kept the pool: this may free it. Nobody uses it any more who has not a share of his own.
fn let_share_go(keeper: Option<Keeper>) {
    if keeper.is_some() {
        Life::share_goes();
    }
    drop(keeper);
}

impl<T: HasPool> fmt::Debug for OwnedHold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_announced() {
            "announced"
        } else {
            "counted"
        };
        write!(f, "OwnedHold({:?}, {how})", self.frame())
    }
}
