//! The system's allocator: the one that a Rust program has if it asks for no other.

#![allow(unsafe_code)] // Its interface is one of layouts and raw pointers.

use std::alloc::{GlobalAlloc, Layout};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use pagewell_frame::{FRAME_BYTES, Order};

use super::frames::{Block, Frames};

pub(super) struct System;

/// Memory of a layout that is not empty.
pub(super) struct SystemBlock {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is memory that nobody else knows of.
unsafe impl Send for SystemBlock {}

/// Of as many bytes as a block of `order`, aligned as a frame: page blocks need not be aligned to their
/// size to be page frames, and to ask for it would make the system's work harder than its peers'.
#[inline]
fn layout(order: Order) -> Option<Layout> {
    Layout::from_size_align(order.bytes(), FRAME_BYTES).ok()
}

impl Frames for System {
    type Block<'a> = SystemBlock;

    #[inline]
    fn alloc(&self, order: Order) -> Option<SystemBlock> {
        let layout = layout(order)?;
        // SAFETY: no block is empty.
        let start = unsafe { std::alloc::System.alloc(layout) };
        NonNull::new(start).map(|start| SystemBlock { start, layout })
    }

    #[inline]
    unsafe fn adopt(&self, number: usize, order: Order) -> SystemBlock {
        let start = std::ptr::with_exposed_provenance_mut(number);
        match (NonNull::new(start), layout(order)) {
            (Some(start), Some(layout)) => SystemBlock { start, layout },
            _ => unreachable!("the number is that of a block"),
        }
    }
}

impl Block for SystemBlock {
    #[inline]
    fn into_number(self) -> usize {
        ManuallyDrop::new(self).start.as_ptr().expose_provenance()
    }
}

impl Drop for SystemBlock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the block was allocated by this allocator with this layout (`alloc`, or (A) of
        // `adopt`), and is not used any more.
        unsafe { std::alloc::System.dealloc(self.start.as_ptr(), self.layout) }
    }
}
