//! The crate `frame-alloc`: a buddy allocator in bitmaps, changed by compare-and-swap, with a cache of
//! single frames for each processor before it.

#![allow(unsafe_code)] // It is told which memory to manage, and believes what it is told to free.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use ::frame_alloc::{
    CpuId, DepotAllocator, PageSize, PhysicalAllocator, Provenance, RegionInit,
    SummaryBuddyAllocator,
};
use memmap2::MmapMut;
use pagewell_frame::{FRAME_BYTES, FRAME_SHIFT, Order};

use super::frames::{Block, Frames};
use super::region;
use crate::bench::plan::MOST_ALLOC_THREADS;
use crate::failure::Failure;

const PAGE: PageSize = PageSize::from_log2(FRAME_SHIFT as u8);

/// The composition that its documentation recommends, with its sizes.
type Allocator = DepotAllocator<
    SummaryBuddyAllocator<{ Order::COUNT }, Mapping>,
    Worker,
    { MOST_ALLOC_THREADS as usize },
>;

/// How often to ask again: it may find nothing though there is something, while others are changing it,
/// and its documentation tells callers to try again.
const TRIES: u32 = 1000;

pub(super) struct FrameAlloc {
    allocator: Box<Allocator>,
    /// What the allocator manages; unmapped after it.
    _region: MmapMut,
}

impl FrameAlloc {
    pub(super) fn new(nr_frames: usize) -> Result<FrameAlloc, Failure> {
        let mut region = region::map(nr_frames)?;
        let start = region.as_mut_ptr().expose_provenance();
        let allocator = Box::new(Allocator::new(PAGE, SummaryBuddyAllocator::new(PAGE)));
        // SAFETY: the region is writable, is this allocator's alone, and lives as long as it; no other
        // thread knows the allocator yet.
        unsafe { allocator.try_init_region(start, nr_frames * FRAME_BYTES) }
            .map_err(|error| Failure::because("frame-alloc does not take its memory", error))?;
        Ok(FrameAlloc {
            allocator,
            _region: region,
        })
    }
}

/// Addresses are those of the mapping, whose provenance is exposed.
struct Mapping;

// SAFETY: the pointer may be used for all of the mapping, since its provenance was exposed as a whole.
unsafe impl Provenance for Mapping {
    unsafe fn create(phys: usize) -> NonNull<u8> {
        let start = ptr::with_exposed_provenance_mut(phys);
        // SAFETY: no mapping begins at address 0, and `phys` is an address in one.
        unsafe { NonNull::new_unchecked(start) }
    }

    unsafe fn destroy<T>(pointer: NonNull<T>) -> usize {
        pointer.addr().get()
    }
}

/// A number for each thread, in place of the processor's: workers stay on theirs.
struct Worker;

impl CpuId for Worker {
    #[inline]
    fn current_cpu() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        const NONE: usize = usize::MAX;
        thread_local! {
            static NUMBER: Cell<usize> = const { Cell::new(NONE) };
        }
        NUMBER.with(|number| {
            if number.get() == NONE {
                // ORDERING: Relaxed; the numbers only have to differ.
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }
}

pub(super) struct FrameAllocBlock<'a> {
    frames: &'a FrameAlloc,
    start: usize,
    nr: NonZeroUsize,
}

/// How many frames a block of `order` has.
#[inline]
fn nr_of(order: Order) -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(order.frames() as usize - 1)
}

impl Frames for FrameAlloc {
    type Block<'a> = FrameAllocBlock<'a>;

    #[inline]
    fn alloc(&self, order: Order) -> Option<FrameAllocBlock<'_>> {
        let nr = nr_of(order);
        let start = (0..TRIES).find_map(|_| self.allocator.allocate_physical(PAGE, nr).ok())?;
        Some(FrameAllocBlock {
            frames: self,
            start,
            nr,
        })
    }

    #[inline]
    unsafe fn adopt(&self, number: usize, order: Order) -> FrameAllocBlock<'_> {
        FrameAllocBlock {
            frames: self,
            start: number,
            nr: nr_of(order),
        }
    }
}

impl Block for FrameAllocBlock<'_> {
    #[inline]
    fn into_number(self) -> usize {
        ManuallyDrop::new(self).start
    }
}

impl Drop for FrameAllocBlock<'_> {
    #[inline]
    fn drop(&mut self) {
        let allocator = &self.frames.allocator;
        // SAFETY: the block was allocated with this page size and number (`alloc`, or (A) of `adopt`), and
        // is not used any more.
        unsafe { allocator.deallocate_physical(PAGE, self.nr, self.start) }
    }
}
