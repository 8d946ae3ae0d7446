//! The handles of frames: the frame alone, or one reference among others.

#![allow(unsafe_code)] // The raw forms of the handles, and the bytes of a page as a slice.

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::frame_pool::FramePool;
use crate::count::RefScheme;
use crate::records::FrameMeta;
use crate::words::{FrameKind, FrameNr, Order};

/// A block that is this handle's alone: allocated and not published, or frozen.
///
/// Its count is locked, so nobody else can take a reference. Dropping the handle frees the block.
pub struct UniqueFrame<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    block: Block,
}

/// A block's first frame and order in one word: with a handle of two words allocations are returned in registers.
/// In memory the parts of a larger handle are stored one by one and loaded together, for which the processor waits.
#[derive(Clone, Copy)]
struct Block(u64);

impl Block {
    #[inline]
    const fn new(frame: FrameNr, order: Order) -> Self {
        Self(frame.get() as u64 | (order.get() as u64) << u32::BITS)
    }

    #[inline]
    const fn frame(self) -> FrameNr {
        FrameNr::new(self.0 as u32)
    }

    #[inline]
    fn order(self) -> Order {
        // Only ever made of an order.
        Order::new((self.0 >> u32::BITS) as u8).unwrap_or(Order::ZERO)
    }
}

impl<'p, S: RefScheme> UniqueFrame<'p, S> {
    /// The caller has taken the frame off a free list, or locked its count.
    #[inline]
    pub(crate) fn new(pool: &'p FramePool<S>, frame: FrameNr, order: Order) -> Self {
        let block = Block::new(frame, order);
        Self { pool, block }
    }

    /// The pool that the block is of.
    pub fn pool(&self) -> &'p FramePool<S> {
        self.pool
    }

    /// The number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.block.frame()
    }

    /// The block's order.
    #[inline]
    pub fn order(&self) -> Order {
        self.block.order()
    }

    /// The block's bytes, to be overwritten, for as long as the block is this handle's. Optimistic readers with a stale frame number may be
    /// reading them; they find out: a release fence here pairs with the acquire fence of their copy.
    #[inline(always)]
    pub fn bytes(&self) -> RacyBytes<'_> {
        self.overwrite();
        self.pool
            .memory()
            .bytes_of(self.frame(), self.order().bytes())
    }

    /// Gives the block's memory back to the system; the block stays allocated, and reads as zeros.
    pub fn discard(&self) {
        self.overwrite();
        self.pool
            .memory()
            .discard(self.frame(), self.order().bytes());
    }

    /// The number alone, to be kept; the frame stays allocated.
    pub fn into_withheld(self) -> FrameNr {
        ManuallyDrop::new(self).frame()
    }

    /// The handle of a frame that was kept as a bare number.
    ///
    /// # Safety
    ///
    /// (A) The number is from [`into_withheld`](Self::into_withheld) of the same pool, and was not
    /// used for this before.
    pub unsafe fn from_withheld(pool: &'p FramePool<S>, frame: FrameNr) -> Self {
        let (_, order) = pool.meta(frame).kind();
        Self::new(pool, frame, order)
    }

    /// Orders every change that led to this handle (the slot that named the block was
    /// changed, the block was freed) before the bytes that are about to be written.
    ///
    /// ```text
    /// this thread, or one before it       optimistic reader with a stale frame number
    /// change the slot                     load the slot: the old value
    /// ... free, allocate ...              copy bytes: some of the new ones
    /// fence(Release)                      fence(Acquire)
    /// write the new bytes                 load the slot again: must not be the old value
    /// ```
    ///
    /// Without the fence the bytes could become visible before the change of the slot; the release
    /// of the slot's store does not help, since it orders only what comes before it.
    fn overwrite(&self) {
        // ORDERING: Release fence; pairs with the acquire fence of the optimistic read, through the
        // bytes. `verify/litmus` has the same with either fence missing.
        fence(Ordering::Release);
    }

    /// Says what the block is for and whose it is, and lets references be taken.
    ///
    /// The caller has `refs` references then, which are its to hand out with [`FrameRef::from_raw`];
    /// one that is never dropped leaks the block. Everything that the caller did before happens before
    /// what a holder of a reference does after taking it.
    ///
    /// # Safety
    ///
    /// (K) What the record of a block of this kind says is believed by whoever uses the pool for blocks of that kind: the
    /// page cache for `Page` and `Leaf`, memory spaces for `Anon` and `Table`. The caller is it, and the words are as
    /// its protocol has them; or nobody uses the pool for such blocks. Blocks of kind `Raw` have no words.
    ///
    /// # Panics
    ///
    /// When the kind is none that a block with references can be of, or `refs` is no number of references.
    pub unsafe fn publish(self, kind: FrameKind, owner: (u64, u64), refs: u32) -> FrameNr {
        self.publish_as(kind, owner, refs)
    }

    #[inline]
    pub(crate) fn publish_as(self, kind: FrameKind, owner: (u64, u64), refs: u32) -> FrameNr {
        assert!(
            kind.may_be_published(),
            "a published block of kind {kind:?}"
        );
        let this = ManuallyDrop::new(self);
        let record = this.pool.meta(this.frame());
        record.set_kind(kind, this.order());
        record.set_owner(owner.0, owner.1);
        record.refs.unfreeze(refs);
        this.frame()
    }
}

impl<S: RefScheme> UniqueFrame<'_, S> {
    /// As [`publish`](Self::publish), with two words that the holder of a reference can read.
    ///
    /// # Safety
    ///
    /// (K) As of [`publish`](Self::publish), for these two words too.
    ///
    /// # Panics
    ///
    /// As [`publish`](Self::publish).
    #[inline(always)]
    pub unsafe fn publish_with(
        self,
        kind: FrameKind,
        owner: (u64, u64),
        private: [u64; 2],
        refs: u32,
    ) -> FrameNr {
        self.pool.meta(self.frame()).set_private(private);
        self.publish_as(kind, owner, refs)
    }
}

impl<S: RefScheme> Drop for UniqueFrame<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.pool.lists().free_locked(self.frame(), self.order());
    }
}

impl<S: RefScheme> fmt::Debug for UniqueFrame<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UniqueFrame({:?}, order {})",
            self.frame(),
            self.order().get()
        )
    }
}

/// One reference to a block. While it exists the block is not freed, and keeps its kind and owner.
///
/// Dropping it gives the reference back, and frees the block if it was the last.
pub struct FrameRef<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    frame: FrameNr,
}

/// What came of [`FramePool::try_get`].
#[derive(Debug)]
#[must_use]
pub enum TryGetFrame<'p, S: RefScheme> {
    /// The reference.
    Taken(FrameRef<'p, S>),
    /// The frame is free, frozen, or inside of a block; or the pool has no such frame.
    Locked,
    /// The frame has as many references as it can count.
    Saturated,
}

impl<'p, S: RefScheme> FrameRef<'p, S> {
    /// The caller has just taken the reference.
    pub(crate) fn new(pool: &'p FramePool<S>, frame: FrameNr) -> Self {
        Self { pool, frame }
    }

    /// The handle of a reference that was kept as a bare number.
    ///
    /// # Safety
    ///
    /// (A) The caller has a reference to `frame`, by [`into_raw`](Self::into_raw) or
    /// [`UniqueFrame::publish`] of the same pool, and it is this handle's from now on.
    pub unsafe fn from_raw(pool: &'p FramePool<S>, frame: FrameNr) -> Self {
        Self { pool, frame }
    }

    /// The number alone; the reference stays taken.
    pub fn into_raw(self) -> FrameNr {
        ManuallyDrop::new(self).frame
    }

    /// The number of the block's first frame.
    pub fn frame(&self) -> FrameNr {
        self.frame
    }

    /// The block's record.
    pub fn meta(&self) -> &'p FrameMeta<S> {
        self.pool.meta(self.frame)
    }

    /// The pool that the block is of.
    pub fn pool(&self) -> &'p FramePool<S> {
        self.pool
    }

    /// The block's bytes, which others may be writing: to be read only, since others may have a reference too, and rely on
    /// what is there, as the pin of a page does.
    pub fn bytes(&self) -> RacySource<'_> {
        let (_, order) = self.meta().kind();
        self.pool
            .memory()
            .bytes_of(self.frame, order.bytes())
            .source()
    }

    /// The bytes of a frame that is, or was, of a [`FrameRange`](crate::FrameRange) ([`FrameKind::Raw`]), of which nobody relies
    /// on what is there: to be written too. None for all other blocks.
    ///
    /// The kind is settled for as long as the reference exists.
    pub fn raw_bytes(&self) -> Option<RacyBytes<'_>> {
        let (kind, order) = self.meta().kind();
        (kind == FrameKind::Raw).then(|| self.pool.memory().bytes_of(self.frame, order.bytes()))
    }

    /// Gives back this reference and another one to the same block, at once; the other one by itself, if it is to another block.
    pub fn drop_with(self, other: Self) {
        if self.frame == other.frame && std::ptr::eq(self.pool, other.pool) {
            let this = ManuallyDrop::new(self);
            let _both = ManuallyDrop::new(other);
            if this.meta().refs.sub_and_test(2).is_last() {
                free_last(this.pool, this.frame);
            }
        }
    }

    /// Makes the block this caller's alone, if this is the only reference. One compare-and-swap.
    ///
    /// # Errors
    ///
    /// The handle itself, when there are other references, be it for a moment.
    #[inline]
    pub fn try_unique(self) -> Result<UniqueFrame<'p, S>, Self> {
        if self.meta().refs.free_if_unique() {
            Ok(self.into_unique())
        } else {
            Err(self)
        }
    }

    /// Makes the block this caller's alone, if there are exactly `expected` references.
    ///
    /// # Safety
    ///
    /// (A) If there are exactly `expected` references, all of them are the caller's to consume: this
    /// one, and others that nobody else will drop or use.
    ///
    /// # Errors
    ///
    /// The handle itself, when the count is another, be it for a moment.
    pub unsafe fn freeze(self, expected: u32) -> Result<UniqueFrame<'p, S>, Self> {
        if self.meta().refs.freeze(expected) {
            Ok(self.into_unique())
        } else {
            Err(self)
        }
    }

    #[inline]
    fn into_unique(self) -> UniqueFrame<'p, S> {
        let this = ManuallyDrop::new(self);
        let (_, order) = this.meta().kind();
        debug_assert!(!this.meta().is_marked(), "a mark has a reference");
        this.pool.lists().adopt(this.frame, order);
        UniqueFrame::new(this.pool, this.frame, order)
    }

    /// The block's first `len` bytes as a plain slice.
    ///
    /// # Safety
    ///
    /// (A) `len` is at most the size of the block. (B) Nobody writes the bytes for as long as this
    /// handle is not dropped: the caller's protocol says that referenced blocks of this kind are not
    /// written. It is none of kind `Raw`, which any holder of a reference may write to.
    #[cfg(not(loom))]
    pub unsafe fn slice(&self, len: usize) -> &[u8] {
        let start = self.bytes().as_ptr();
        // SAFETY: (A) the range is of the block, which is mapped memory that lives as long as the
        // pool; (B) it does not change while the slice, which borrows from this handle, lives.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

impl<S: RefScheme> Drop for FrameRef<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.meta().refs.put().is_last() {
            free_last(self.pool, self.frame);
        }
    }
}

impl<S: RefScheme> fmt::Debug for FrameRef<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRef({:?})", self.frame)
    }
}

/// Frees a block whose last reference was just dropped by the caller.
#[cold]
fn free_last<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) {
    let (_, order) = pool.meta(frame).kind();
    pool.lists().free_locked(frame, order);
}
