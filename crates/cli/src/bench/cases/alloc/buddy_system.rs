//! The crate `buddy_system_allocator`: a buddy allocator of frame numbers, whose free lists are ordered
//! sets. (Its `LockedFrameAllocator` is the same allocator in the same lock.)

use buddy_system_allocator::FrameAllocator;
use pagewell_frame::Order;

use super::locked::{Locked, Unshared};

/// One with the orders that Pagewell has.
type Allocator = FrameAllocator<{ Order::COUNT }>;

pub(super) fn new(nr_frames: usize) -> Locked<impl Unshared> {
    let mut allocator = Allocator::new();
    allocator.insert(0..nr_frames);
    Locked::new(allocator)
}

impl Unshared for Allocator {
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<usize> {
        FrameAllocator::alloc(self, order.frames() as usize)
    }

    #[inline]
    fn free(&mut self, number: usize, order: Order) {
        self.dealloc(number, order.frames() as usize);
    }
}
