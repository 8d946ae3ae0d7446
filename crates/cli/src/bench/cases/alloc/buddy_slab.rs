//! The crate `buddy-slab-allocator`: its page allocator, a buddy allocator with linked free lists and a
//! record for each page.

#![allow(unsafe_code)] // It is told which memory to manage.

use buddy_slab_allocator::BuddyAllocator;
use memmap2::MmapMut;
use pagewell_frame::{FRAME_BYTES, Order};

use super::locked::{Locked, Unshared};
use super::region;
use crate::failure::Failure;

struct BuddySlab {
    pages: BuddyAllocator<FRAME_BYTES>,
    /// What the allocator manages; unmapped after it.
    _region: MmapMut,
}

pub(super) fn new(nr_frames: usize) -> Result<Locked<impl Unshared>, Failure> {
    let mut region = region::map(nr_frames)?;
    let mut pages = BuddyAllocator::new();
    // SAFETY: the region is writable, is this allocator's alone, and lives as long as it: both are in one
    // value, and moving the mapping's handle does not move the memory.
    unsafe { pages.init(&mut region) }
        .map_err(|error| Failure::Run(format!("buddy-slab does not take its memory: {error:?}")))?;
    Ok(Locked::new(BuddySlab {
        pages,
        _region: region,
    }))
}

impl Unshared for BuddySlab {
    #[inline]
    fn alloc(&mut self, order: Order) -> Option<usize> {
        let nr = order.frames() as usize;
        self.pages.alloc_pages(nr, FRAME_BYTES).ok()
    }

    #[inline]
    fn free(&mut self, number: usize, order: Order) {
        self.pages.dealloc_pages(number, order.frames() as usize);
    }
}
