//! [`OwnedHold`]: a reference, counted or a hazard, that does not borrow the pool. [`PoolOwner`]:
//! an owner whose drop leaves the pool to such references. See "The end of the pool" in `announce`.

#![allow(unsafe_code)] // `OwnedHold` has no strong reference.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use pagewell_sync::Arc;
use pagewell_sync::bytes::RacySource;
use pagewell_sync::cell::Life;
use pagewell_sync::shard::{Identity, known_identity};

use super::frame_pool::FramePool;
use super::handle::FrameRef;
use crate::announce::{Ended, Exit, Keeper, Slot, Word};
use crate::words::FrameNr;

/// Value that contains a pool.
pub trait HasPool: Send + Sync + 'static {
    /// Returns the pool.
    fn pool(&self) -> &FramePool;

    /// Returns `true` in a forked child of the process that created the pool. Nothing is freed
    /// there, since threads that held the pool's locks may not exist.
    fn is_in_child(&self) -> bool;
}

/// Owner of a pool. While it exists, references that do not borrow the pool can be acquired
/// ([`OwnedHold`]). After its drop, the last of them or of other strong references frees the pool.
#[derive(Debug)]
pub struct PoolOwner<T: HasPool>(Arc<T>);

impl<T: HasPool> PoolOwner<T> {
    /// Creates an owner of the value in `shared`. Several owners are dropped independently.
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
            // Do not scan: a thread that does not exist in the child may have held the lock.
            std::mem::forget(keeper);
            return;
        }
        let pool = self.0.pool();
        let announcements = pool.announcements();
        let (_, exit) = announcements.exit();
        let let_go = match exit.enter() {
            Some(mut entered) => announcements.leave(pool.lists(), keeper, &mut entered),
            // Another owner had orphaned the pool, and the keeper of that owner was released.
            None => Some(keeper),
        };
        drop(let_go);
        Life::share_goes();
    }
}

/// One reference to a block, like a [`Hold`](super::Hold), that keeps the block and the pool
/// allocated, even after their owners are dropped. If it is leaked, its pool is never freed.
#[repr(C)]
pub struct OwnedHold<T: HasPool> {
    /// Value that contains the pool: a strong reference, if the reference is counted.
    shared: NonNull<T>,
    /// Slot of the hazard, or `None` if the reference is counted.
    slot: Option<NonNull<Slot>>,
    /// Word of the hazard, or the frame with serial 0 if the reference is counted.
    word: Word,
    _share: PhantomData<Arc<T>>,
}

// SAFETY: the fields are a strong reference to a value that is `Send` and `Sync`, a reference that
// any thread may drop, and the address of atomics.
unsafe impl<T: HasPool> Send for OwnedHold<T> {}
// SAFETY: as above; through a shared reference, bytes are only read.
unsafe impl<T: HasPool> Sync for OwnedHold<T> {}

impl<T: HasPool> OwnedHold<T> {
    /// Publishes a reference to `frame`, like [`FramePool::try_announce`].
    ///
    /// # Safety
    ///
    /// (P) `pool` of `shared` always returns the same pool, which exists and does not move as long
    /// as the value of `shared` exists. (L) During the call a [`PoolOwner`] of `shared` exists, and
    /// `shared` never has another one. (The owner may be dropped or leaked later.)
    #[inline(always)]
    pub unsafe fn try_announce(
        shared: &Arc<T>,
        frame: FrameNr,
        is_still: impl FnOnce() -> bool,
    ) -> Option<Self> {
        // SAFETY: the caller ensures (P) and (L).
        unsafe { Self::try_announce_as(known_identity()?, shared, frame, is_still) }
    }

    /// Like [`try_announce`](Self::try_announce), for an explicit thread, in models.
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
        let protected = shared.pool().protected(frame)?;
        let word = Word::owned(frame, me.serial());
        let slot = protected.announce((me, word), is_still)?;
        Some(Self {
            shared: NonNull::from(&**shared),
            slot: Some(NonNull::from(slot)),
            word,
            _share: PhantomData,
        })
    }

    /// Combines `reference` with a strong reference to the value that contains its pool.
    ///
    /// # Safety
    ///
    /// (P) of [`try_announce`](Self::try_announce).
    ///
    /// # Panics
    ///
    /// If the reference is to a block of another pool.
    #[inline]
    pub unsafe fn counted(shared: Arc<T>, reference: FrameRef<'_>) -> Self {
        assert!(std::ptr::eq(reference.pool(), shared.pool()));
        let word = Word::new(reference.into_raw(), 0);
        Self {
            // SAFETY: the address from `into_raw` is not null.
            shared: unsafe { NonNull::new_unchecked(Arc::into_raw(shared).cast_mut()) },
            slot: None,
            word,
            _share: PhantomData,
        }
    }

    /// Returns the number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.word.frame()
    }

    #[inline]
    fn shared(&self) -> &T {
        // SAFETY: the value exists as long as `self`: a counted reference has a strong reference to
        // it, and for a hazard, by (L), the owner or its keeper has one.
        unsafe { self.shared.as_ref() }
    }

    /// Returns the pool of the block.
    #[inline]
    pub fn pool(&self) -> &FramePool {
        self.shared().pool()
    }

    /// Returns `true` if this is a hazard, not a counted reference.
    #[inline]
    pub fn is_announced(&self) -> bool {
        self.slot.is_some()
    }

    /// Returns the bytes of the block, like [`FrameRef::bytes`].
    pub fn bytes(&self) -> RacySource<'_> {
        let pool = self.pool();
        pool.announcements().used();
        let (_, order) = pool.meta(self.frame()).kind();
        pool.memory().bytes_of(self.frame(), order.bytes()).source()
    }
}

impl<T: HasPool> Drop for OwnedHold<T> {
    // As in `Hold`: only the end of a hazard whose slot is not awaited is inlined, and the calls
    // take no reference to `self` or a local variable.
    #[inline(always)]
    fn drop(&mut self) {
        if self.shared().is_in_child() {
            return;
        }
        let Some(slot) = self.slot else {
            return put_counted(self.shared, self.word);
        };
        // Load these first: once the hazard has ended, the pool may no longer exist (I5).
        let (fences, exit) = self.pool().announcements().exit();
        // SAFETY: slots are in memory that is never freed.
        let ended = unsafe { slot.as_ref() }.end(self.word, fences);
        if ended != Ended::Done {
            settle(self.shared, self.word, exit, ended == Ended::Counted);
        }
    }
}

#[cold]
#[inline(never)]
fn put_counted<T: HasPool>(shared: NonNull<T>, word: Word) {
    // SAFETY: the address is from `Arc::into_raw` in `counted`, and only this call consumes it.
    let shared = unsafe { Arc::from_raw(shared.as_ptr().cast_const()) };
    drop(FrameRef::new(shared.pool(), word.frame()));
}

/// Puts the reference to which the hazard was transferred, or scans, unless another thread's scan
/// has seen the end of the hazard and released the pool.
#[cold]
#[inline(never)]
fn settle<T: HasPool>(shared: NonNull<T>, word: Word, exit: Exit, is_counted: bool) {
    let Some(mut entered) = exit.enter() else {
        assert!(!is_counted, "a transferred hazard keeps the pool");
        return;
    };
    // SAFETY: only a thread that holds the gate releases the pool. This one holds it, in the term
    // of this pool, so the pool exists.
    let pool = unsafe { shared.as_ref() }.pool();
    let (announcements, lists) = (pool.announcements(), pool.lists());
    let let_go = if is_counted {
        announcements.put_handed_over(lists, word.frame(), &mut entered)
    } else {
        announcements.look_entered(lists, &mut entered)
    };
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
