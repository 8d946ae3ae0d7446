//! [`OwnedHold`]: a reference that borrows nothing, counted or a hazard; [`PoolOwner`], which
//! leaves the pool to such references.
//!
//! A counted one has a strong reference to the value that contains the pool. Its count would be
//! shared, so the pool's owner leaves one strong reference for all hazards: I6 of `announce`.

#![allow(unsafe_code)] // `OwnedHold` has no strong reference.

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

/// Value that contains a pool.
pub trait HasPool: Send + Sync + 'static {
    /// Reference-counting scheme of the pool.
    type Scheme: RefScheme;

    /// Returns the pool.
    fn pool(&self) -> &FramePool<Self::Scheme>;

    /// Whether this process is a forked child of the one that created the pool. Threads that held
    /// its locks may be missing then, so nothing is freed.
    fn is_in_child(&self) -> bool;
}

/// Owner of a pool. While it exists, references that borrow nothing can be acquired
/// ([`OwnedHold`]). Its drop leaves the pool to those that exist, and the last of them frees it.
/// Other strong references may keep it longer.
#[derive(Debug)]
pub struct PoolOwner<T: HasPool>(Arc<T>);

impl<T: HasPool> PoolOwner<T> {
    /// Creates an owner of the value in `shared`. Several owners of one value end separately.
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
            // No scan: threads with hazards do not exist here, and may have held the lock.
            std::mem::forget(keeper);
            return;
        }
        let pool = self.0.pool();
        let announcements = pool.announcements();
        let (_, exit) = announcements.exit();
        let let_go = match exit.enter() {
            Some(mut entered) => announcements.leave(pool.lists(), keeper, &mut entered),
            // Another owner has orphaned the pool, and it was released.
            None => Some(keeper),
        };
        drop(let_go);
        Life::share_goes();
    }
}

/// One reference to a block, as a [`Hold`](super::Hold), that borrows nothing: it keeps the block
/// and the pool, even after their owners.
///
/// It may be sent to another thread and dropped there, and may outlive the thread that acquired it.
/// A leaked one keeps its pool forever.
#[repr(C)]
pub struct OwnedHold<T: HasPool> {
    /// Value that contains the pool. A counted reference has a strong reference to it.
    shared: NonNull<T>,
    /// Slot of the hazard, or `None` if the reference is counted.
    slot: Option<NonNull<Slot>>,
    /// As in `Hold`.
    word: Word,
    _share: PhantomData<Arc<T>>,
}

// SAFETY: a strong reference to a value that is `Send` and `Sync`, a reference that any thread may
// drop, and the address of atomics.
unsafe impl<T: HasPool> Send for OwnedHold<T> {}
// SAFETY: as above; a shared reference only reads bytes.
unsafe impl<T: HasPool> Sync for OwnedHold<T> {}

impl<T: HasPool> OwnedHold<T> {
    /// Publishes a reference to `frame`. As [`try_announce`](FramePool::try_announce).
    ///
    /// # Safety
    ///
    /// (P) `pool` of `shared` returns the same pool each time, which exists as long as `shared`
    /// does, and is never moved again. (L) During the call a [`PoolOwner`] of `shared` exists. It
    /// is the only one that ever did, and is eventually dropped, or leaked.
    #[inline(always)]
    pub unsafe fn try_announce(
        shared: &Arc<T>,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Self> {
        // SAFETY: (P) and (L) are passed on.
        unsafe { Self::try_announce_as(own_identity()?, shared, frame, is_still) }
    }

    /// As [`try_announce`](Self::try_announce), for an explicit thread: models of threads that end.
    ///
    /// # Safety
    ///
    /// As for `try_announce`.
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

    /// Combines the counted `reference` with a strong reference to the value that contains its
    /// pool.
    ///
    /// # Safety
    ///
    /// (P) of [`try_announce`](Self::try_announce).
    ///
    /// # Panics
    ///
    /// If the reference is to a block of another pool.
    pub unsafe fn counted(shared: Arc<T>, reference: FrameRef<'_, T::Scheme>) -> Self {
        assert!(std::ptr::eq(reference.pool(), shared.pool()));
        let word = Word::new(reference.into_raw(), 0);
        Self {
            // SAFETY: the address of a value is not null.
            shared: unsafe { NonNull::new_unchecked(Arc::into_raw(shared).cast_mut()) },
            slot: None,
            word,
            _share: PhantomData,
        }
    }

    /// Number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.word.frame()
    }

    #[inline]
    fn shared(&self) -> &T {
        // SAFETY: while this exists, so does the value that contains the pool: by the strong
        // reference of a counted one, or (L) by the owner or its keeper.
        unsafe { self.shared.as_ref() }
    }

    /// Pool of the block.
    #[inline]
    pub fn pool(&self) -> &FramePool<T::Scheme> {
        self.shared().pool()
    }

    /// Whether this is a hazard, not a counted reference.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.slot.is_some()
    }

    /// Bytes of the block, as of a [`FrameRef`].
    pub fn bytes(&self) -> RacySource<'_> {
        let pool = self.pool();
        pool.announcements().used();
        let (_, order) = pool.meta(self.frame()).kind();
        pool.memory().bytes_of(self.frame(), order.bytes()).source()
    }
}

impl<T: HasPool> Drop for OwnedHold<T> {
    // As in `Hold`: only the common case is inline.
    #[inline(always)]
    fn drop(&mut self) {
        if self.shared().is_in_child() {
            return;
        }
        let Some(slot) = self.slot else {
            put_counted(self.shared, self.word);
            return;
        };
        // Before the hazard ends. After that, the pool may not exist (I5).
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

/// Puts a counted reference, then drops the strong reference to the value that contains the pool.
#[cold]
#[inline(never)]
fn put_counted<T: HasPool>(shared: NonNull<T>, word: Word) {
    // SAFETY: from `Arc::into_raw` in `counted`; dropped once, with this reference.
    let shared = unsafe { Arc::from_raw(shared.as_ptr().cast_const()) };
    drop(FrameRef::new(shared.pool(), word.frame()));
}

/// Scans after the end of an awaited hazard, if the pool still exists. Another thread's scan may
/// have seen the end and released the pool.
#[cold]
#[inline(never)]
fn look<T: HasPool>(shared: NonNull<T>, exit: &Exit) {
    let Some(mut entered) = exit.enter() else {
        return;
    };
    // SAFETY: only a thread that has entered the gate releases the pool, so it exists.
    let pool = unsafe { shared.as_ref() }.pool();
    let let_go = pool
        .announcements()
        .look_entered(pool.lists(), &mut entered);
    drop(entered);
    let_share_go(let_go);
}

/// Puts the counted reference to which a hazard was transferred.
#[cold]
#[inline(never)]
fn put_handed_over<T: HasPool>(shared: NonNull<T>, word: Word, exit: &Exit) {
    // The pool is kept for this reference until it is put.
    let mut entered = exit.enter().expect("a transferred hazard keeps the pool");
    // SAFETY: as above.
    let pool = unsafe { shared.as_ref() }.pool();
    let announcements = pool.announcements();
    let let_go = announcements.put_handed_over(pool.lists(), word.frame(), &mut entered);
    drop(entered);
    let_share_go(let_go);
}

/// Drops the keeper, which may free the pool. All remaining users have strong references.
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
