//! Pagewell's frame pool.

#![allow(unsafe_code)] // Handles made of numbers again.

use pagewell_frame::{FrameNr, FramePool, Order, PoolConfig, UniqueFrame};

use super::frames::{Block, Frames};
use crate::failure::Failure;

pub(super) fn new(nr_frames: usize) -> Result<FramePool, Failure> {
    FramePool::new(&PoolConfig::new(nr_frames))
        .map_err(|error| Failure::because("cannot make a frame pool", error))
}

impl Frames for FramePool {
    type Block<'a> = UniqueFrame<'a>;

    #[inline]
    fn alloc(&self, order: Order) -> Option<UniqueFrame<'_>> {
        FramePool::alloc(self, order)
    }

    #[inline]
    unsafe fn adopt(&self, number: usize, _: Order) -> UniqueFrame<'_> {
        let frame = FrameNr::new(number as u32);
        // SAFETY: the caller's (A) is the (A) of this: the number is from `into_withheld`.
        unsafe { UniqueFrame::from_withheld(self, frame) }
    }
}

impl Block for UniqueFrame<'_> {
    #[inline]
    fn into_number(self) -> usize {
        self.into_withheld().index()
    }
}
