//! Memory of the frames: one region for a whole pool, with all its nodes.
//!
//! A shift and an addition convert a frame number to an address. The range stays readable while the
//! pool lives, for optimistic readers with a stale number. One more frame is mapped, so the length
//! of a frame after any frame can be read too.

#![allow(unsafe_code)] // Bytes by offset.

use std::io;

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::region::{HugePages, Region, RegionOptions, RegionRef};

use crate::words::{FRAME_BYTES, FRAME_SHIFT, FRAME_WORDS, FrameNr, Order};

#[derive(Debug)]
pub(crate) struct Memory(Region);

impl Memory {
    /// Reserves memory, which the system allocates on first access.
    pub(crate) fn reserve(nr_frames: usize, huge_pages: HugePages) -> io::Result<Self> {
        let options = RegionOptions {
            // Of blocks of the highest order, and of huge pages.
            align: Order::MAX.bytes(),
            readable_after: FRAME_BYTES,
            huge_pages,
            is_lockable: true,
        };
        Region::reserve_with(nr_frames.saturating_mul(FRAME_WORDS), &options).map(Self)
    }

    /// Requests memory of the NUMA node `node`, as long as some is free.
    pub(crate) fn prefer(&self, first: FrameNr, nr: usize, node: u32) -> io::Result<()> {
        let first = first.index() * FRAME_WORDS;
        self.0.prefer_node(first, nr * FRAME_WORDS, node)
    }

    /// Discards memory: the bytes then read as zeros, unless the system refuses. The caller owns
    /// the frames.
    pub(crate) fn discard(&self, frame: FrameNr, len: usize) {
        let first = frame.index() * FRAME_WORDS;
        self.0.discard_unused(first, len / size_of::<AtomicU64>());
    }

    /// Returns a reference without a lifetime, for cache hits.
    #[inline]
    pub(crate) fn unchecked(&self) -> RegionRef {
        self.0.unchecked()
    }

    /// Panics if the bytes are not all in frames of this memory.
    #[inline]
    pub(crate) fn words_of(&self, frame: FrameNr, len: usize) -> &[AtomicU64] {
        let first = frame.index() * FRAME_WORDS;
        &self.0[first..first + len / size_of::<AtomicU64>()]
    }

    /// Requires `len` below half of `usize::MAX`. Panics like [`Self::words_of`].
    #[inline]
    pub(crate) fn bytes_of(&self, frame: FrameNr, len: usize) -> RacyBytes<'_> {
        let start = frame.index() << FRAME_SHIFT;
        assert!(start + len <= size_of_val(&*self.0));
        // SAFETY: by the assertion the bytes are in the region, which lives as long as `self`.
        unsafe { self.0.unchecked().bytes(start, 0, len) }
    }
}
