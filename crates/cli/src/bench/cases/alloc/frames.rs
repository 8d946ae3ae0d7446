//! What the loops ask of an allocator.

#![allow(unsafe_code)] // A number is a block only if the caller says so.

use pagewell_frame::Order;

/// An allocator of page frames that threads share.
pub(super) trait Frames: Sync {
    /// A block that its handle owns; dropping the handle frees it.
    type Block<'a>: Block
    where
        Self: 'a;

    /// Allocates a block of `order`; none if there is none.
    fn alloc(&self, order: Order) -> Option<Self::Block<'_>>;

    /// The handle of a block that was passed on as a number.
    ///
    /// # Safety
    ///
    /// (A) The number is from [`Block::into_number`] of a block of `order` of this allocator, and was not
    /// used for this before.
    unsafe fn adopt(&self, number: usize, order: Order) -> Self::Block<'_>;
}

/// The handle of a block.
pub(super) trait Block: Send {
    /// The block as a number that fits into a word; it stays allocated.
    fn into_number(self) -> usize;
}

/// Every allocator has enough for what the loops hold at a time.
#[cold]
pub(super) fn exhausted(order: Order) -> String {
    format!("the allocator has no block of order {} left", order.get())
}
