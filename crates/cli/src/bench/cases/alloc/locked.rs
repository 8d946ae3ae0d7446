//! Allocators that are not for several threads, behind the lock that their documentation has them in: one
//! that spins.

use pagewell_frame::Order;
use spin::Mutex;

use super::frames::{Block, Frames};

/// An allocator that one thread at a time may use.
pub(super) trait Unshared: Send {
    /// Allocates a block; the number says where it is.
    fn alloc(&mut self, order: Order) -> Option<usize>;

    /// Frees the block at `number`, which was allocated with this `order`.
    fn free(&mut self, number: usize, order: Order);
}

pub(super) struct Locked<A>(Mutex<A>);

impl<A: Unshared> Locked<A> {
    pub(super) fn new(allocator: A) -> Locked<A> {
        Locked(Mutex::new(allocator))
    }
}

/// A block of a [`Locked`] allocator.
pub(super) struct LockedBlock<'a, A: Unshared> {
    frames: &'a Locked<A>,
    number: usize,
    order: Order,
}

#[allow(unsafe_code)] // The trait's method is unsafe; here it is not.
impl<A: Unshared> Frames for Locked<A> {
    type Block<'a>
        = LockedBlock<'a, A>
    where
        A: 'a;

    #[inline]
    fn alloc(&self, order: Order) -> Option<LockedBlock<'_, A>> {
        let number = self.0.lock().alloc(order)?;
        Some(LockedBlock {
            frames: self,
            number,
            order,
        })
    }

    #[inline]
    unsafe fn adopt(&self, number: usize, order: Order) -> LockedBlock<'_, A> {
        LockedBlock {
            frames: self,
            number,
            order,
        }
    }
}

impl<A: Unshared> Block for LockedBlock<'_, A> {
    #[inline]
    fn into_number(self) -> usize {
        std::mem::ManuallyDrop::new(self).number
    }
}

impl<A: Unshared> Drop for LockedBlock<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.frames.0.lock().free(self.number, self.order);
    }
}
