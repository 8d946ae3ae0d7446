//! The crate `bitmap-allocator`: a tree of bitmaps.

use bitmap_allocator::{BitAlloc, BitAlloc1M};
use pagewell_frame::Order;

use super::locked::{Locked, Unshared};
use crate::failure::Failure;

struct Bitmap(Box<BitAlloc1M>);

pub(super) fn new(nr_frames: usize) -> Result<Locked<impl Unshared>, Failure> {
    if nr_frames > BitAlloc1M::CAP {
        return Err(Failure::Run(format!(
            "a bitmap has {} bits at the most",
            BitAlloc1M::CAP
        )));
    }
    let mut bits = Box::new(BitAlloc1M::default());
    bits.insert(0..nr_frames);
    Ok(Locked::new(Bitmap(bits)))
}

impl Unshared for Bitmap {
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<usize> {
        if order == Order::ZERO {
            self.0.alloc()
        } else {
            let nr = order.frames() as usize;
            self.0.alloc_contiguous(None, nr, order.index())
        }
    }

    #[inline]
    fn free(&mut self, number: usize, order: Order) {
        if order == Order::ZERO {
            self.0.dealloc(number);
        } else {
            self.0.dealloc_contiguous(number, order.frames() as usize);
        }
    }
}
