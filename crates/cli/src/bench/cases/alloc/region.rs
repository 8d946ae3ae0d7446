//! Memory for allocators that want some to manage, and keep their records in it.

use memmap2::{MmapMut, MmapOptions};
use pagewell_frame::FRAME_BYTES;

use crate::failure::Failure;

/// Maps addresses for so many frames; only what is touched takes memory.
pub(super) fn map(nr_frames: usize) -> Result<MmapMut, Failure> {
    MmapOptions::new()
        .len(nr_frames * FRAME_BYTES)
        .no_reserve_swap()
        .map_anon()
        .map_err(|error| Failure::because("cannot map memory for an allocator", error))
}
