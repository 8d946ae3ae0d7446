//! Handles of frames: [`UniqueFrame`] for exclusive access, [`FrameRef`] for one reference.

#![allow(unsafe_code)] // Handles as bare numbers, and the bytes of a page as a slice.

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::frame_pool::FramePool;
use crate::records::FrameMeta;
use crate::words::{FrameKind, FrameNr, Order};

/// An exclusively owned block: allocated and not published, or frozen. Its count is locked, so no
/// thread can acquire a reference. Dropping the handle frees the block.
pub struct UniqueFrame<'p> {
    pool: &'p FramePool,
    block: Block,
}

/// First frame and order of a block, in one word, so that a handle is returned in registers. A
/// larger handle would be stored in parts and loaded as a whole, which stalls.
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
        // The bits come from an order, so they are valid.
        Order::new((self.0 >> u32::BITS) as u8).unwrap_or(Order::ZERO)
    }
}

impl<'p> UniqueFrame<'p> {
    /// Creates the handle of a block that the caller owns.
    #[inline]
    pub(crate) fn new(pool: &'p FramePool, frame: FrameNr, order: Order) -> Self {
        let block = Block::new(frame, order);
        Self { pool, block }
    }

    /// Returns the pool of the block.
    pub fn pool(&self) -> &'p FramePool {
        self.pool
    }

    /// Returns the number of the block's first frame.
    #[inline]
    pub fn frame(&self) -> FrameNr {
        self.block.frame()
    }

    /// Returns the order of the block.
    #[inline]
    pub fn order(&self) -> Order {
        self.block.order()
    }

    /// Returns the bytes of the block, for writing. Optimistic readers with a stale frame number
    /// may copy them, but detect that: a release fence here pairs with their acquire fence.
    #[inline(always)]
    pub fn bytes(&self) -> RacyBytes<'_> {
        self.overwrite();
        self.pool
            .memory()
            .bytes_of(self.frame(), self.order().bytes())
    }

    /// Returns the memory to the system. The bytes then read as zeros, unless the system refuses.
    pub fn discard(&self) {
        self.overwrite();
        self.pool
            .memory()
            .discard(self.frame(), self.order().bytes());
    }

    /// Converts the handle to a bare frame number. The block stays allocated.
    pub fn into_withheld(self) -> FrameNr {
        ManuallyDrop::new(self).frame()
    }

    /// Restores the handle of a block from its bare frame number.
    ///
    /// # Safety
    ///
    /// (A) The number comes from [`into_withheld`](Self::into_withheld) of a handle of this pool,
    /// and is converted back only once.
    pub unsafe fn from_withheld(pool: &'p FramePool, frame: FrameNr) -> Self {
        let (_, order) = pool.meta(frame).kind();
        Self::new(pool, frame, order)
    }

    /// Orders all changes that led to this handle (of the slot that named the block, and its free)
    /// before later writes of the block's bytes.
    ///
    /// ```text
    /// this thread, or one before it       optimistic reader with a stale frame number
    /// change the slot                     load the slot: the old value
    /// ... free, allocate ...              copy bytes: some of the new ones
    /// fence(Release)                      fence(Acquire)
    /// write the new bytes                 load the slot again: must not be the old value
    /// ```
    ///
    /// Without the fence the bytes could become visible before the change of the slot: its release
    /// orders only earlier accesses.
    fn overwrite(&self) {
        // ORDERING: Release fence; pairs with the acquire fence of an optimistic read of these
        // bytes. `verify/litmus` has tests that lack one of the two.
        fence(Ordering::Release);
    }

    /// Publishes the block with its kind and owner, and with `refs` references, which the caller
    /// distributes with [`FrameRef::from_raw`]. All actions of the caller before this call happen
    /// before accesses under references that are acquired later.
    ///
    /// # Safety
    ///
    /// (K) The user of the pool for blocks of this kind relies on their records: the page cache for
    /// `Page` and `Leaf`, memory spaces for `Anon` and `Table`. The caller is that user, and
    /// `owner` follows its protocol, or the pool has no such user. No code relies on a `Raw`
    /// block's owner.
    ///
    /// # Panics
    ///
    /// If blocks of this kind cannot have references, or `refs` is out of range.
    pub unsafe fn publish(self, kind: FrameKind, owner: (u64, u64), refs: u32) -> FrameNr {
        self.publish_as(kind, owner, refs)
    }

    #[inline]
    pub(crate) fn publish_as(self, kind: FrameKind, owner: (u64, u64), refs: u32) -> FrameNr {
        assert!(
            kind.may_be_published(),
            "cannot publish a block of kind {kind:?}"
        );
        let this = ManuallyDrop::new(self);
        let record = this.pool.meta(this.frame());
        record.set_kind(kind, this.order());
        record.set_owner(owner.0, owner.1);
        record.refs.unfreeze(refs);
        this.frame()
    }
}

impl UniqueFrame<'_> {
    /// Like [`publish`](Self::publish), but also stores the words of [`FrameMeta::private`].
    ///
    /// # Safety
    ///
    /// (K) of [`publish`](Self::publish), for `private` too.
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

impl Drop for UniqueFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pool.lists().free_locked(self.frame(), self.order());
    }
}

impl fmt::Debug for UniqueFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UniqueFrame({:?}, order {})",
            self.frame(),
            self.order().get()
        )
    }
}

/// One counted reference to a block, which keeps the block allocated, with its kind and owner.
/// Dropping the handle puts the reference, and frees the block if it was the last one.
pub struct FrameRef<'p> {
    pool: &'p FramePool,
    frame: FrameNr,
}

/// Result of [`FramePool::try_get`].
#[derive(Debug)]
#[must_use]
pub enum TryGetFrame<'p> {
    /// The caller holds a reference.
    Taken(FrameRef<'p>),
    /// The frame is free, frozen, or a tail of a block; or the pool has no such frame.
    Locked,
    /// The frame has the maximum number of references.
    Saturated,
}

impl<'p> FrameRef<'p> {
    /// Creates the handle of a reference that the caller has acquired.
    pub(crate) fn new(pool: &'p FramePool, frame: FrameNr) -> Self {
        Self { pool, frame }
    }

    /// Restores the handle of a reference from the bare number of its frame.
    ///
    /// # Safety
    ///
    /// (A) The caller holds a reference to `frame`, from [`into_raw`](Self::into_raw) or
    /// [`UniqueFrame::publish`] of the same pool, and gives it up to this handle.
    pub unsafe fn from_raw(pool: &'p FramePool, frame: FrameNr) -> Self {
        Self { pool, frame }
    }

    /// Converts the handle to a bare frame number, without putting the reference.
    pub fn into_raw(self) -> FrameNr {
        ManuallyDrop::new(self).frame
    }

    /// Returns the number of the block's first frame.
    pub fn frame(&self) -> FrameNr {
        self.frame
    }

    /// Returns the record of the block.
    pub fn meta(&self) -> &'p FrameMeta {
        self.pool.meta(self.frame)
    }

    /// Returns the pool of the block.
    pub fn pool(&self) -> &'p FramePool {
        self.pool
    }

    /// Returns the bytes, read-only: other holders may write them, or rely on them not to change.
    pub fn bytes(&self) -> RacySource<'_> {
        let (_, order) = self.meta().kind();
        self.pool
            .memory()
            .bytes_of(self.frame, order.bytes())
            .source()
    }

    /// Returns the bytes of a block of kind [`FrameKind::Raw`], for writing, since no holder of a
    /// reference relies on them. Returns `None` for other blocks.
    pub fn raw_bytes(&self) -> Option<RacyBytes<'_>> {
        let (kind, order) = self.meta().kind();
        (kind == FrameKind::Raw).then(|| self.pool.memory().bytes_of(self.frame, order.bytes()))
    }

    /// Puts this reference and `other`, both at once if they are to one block.
    pub fn drop_with(self, other: Self) {
        if self.frame == other.frame && std::ptr::eq(self.pool, other.pool) {
            let this = ManuallyDrop::new(self);
            let _both = ManuallyDrop::new(other);
            if this.meta().refs.sub_and_test(2).is_last() {
                free_last(this.pool, this.frame);
            }
        }
    }

    /// Converts the only reference to exclusive access, by one compare-and-swap.
    ///
    /// # Errors
    ///
    /// Returns this handle if other references exist, even if only briefly.
    #[inline]
    pub fn try_unique(self) -> Result<UniqueFrame<'p>, Self> {
        if self.meta().refs.free_if_unique() {
            Ok(self.into_unique())
        } else {
            Err(self)
        }
    }

    /// Converts exactly `expected` references to exclusive access.
    ///
    /// # Safety
    ///
    /// (A) If the block has exactly `expected` references, the caller gives all of them up: this
    /// one, and others that no code drops or uses later.
    ///
    /// # Errors
    ///
    /// Returns this handle if the count differs, even if only briefly.
    pub unsafe fn freeze(self, expected: u32) -> Result<UniqueFrame<'p>, Self> {
        if self.meta().refs.freeze(expected) {
            Ok(self.into_unique())
        } else {
            Err(self)
        }
    }

    #[inline]
    fn into_unique(self) -> UniqueFrame<'p> {
        let this = ManuallyDrop::new(self);
        let (_, order) = this.meta().kind();
        debug_assert!(
            !this.meta().is_marked(),
            "a protected frame has another reference"
        );
        this.pool.lists().adopt(this.frame, order);
        UniqueFrame::new(this.pool, this.frame, order)
    }

    /// Returns the block's first `len` bytes as a plain slice.
    ///
    /// # Safety
    ///
    /// (A) `len` is at most the size of the block. (B) No thread writes the bytes until this handle
    /// is dropped, because by the caller's protocol referenced blocks of this kind are not written.
    /// The kind is not `Raw`: any holder of a reference may write to a raw block.
    pub unsafe fn slice(&self, len: usize) -> &[u8] {
        let start = self.bytes().as_ptr();
        // SAFETY: by (A) the range is in the block, mapped while the pool lives. By (B) the bytes
        // do not change while this handle is borrowed.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

impl Drop for FrameRef<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.meta().refs.put().is_last() {
            free_last(self.pool, self.frame);
        }
    }
}

impl fmt::Debug for FrameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRef({:?})", self.frame)
    }
}

#[cold]
fn free_last(pool: &FramePool, frame: FrameNr) {
    let (_, order) = pool.meta(frame).kind();
    pool.lists().free_locked(frame, order);
}
