//! Unsafe step of writes, as a safe function that checks its requirements.

#![allow(unsafe_code)] // See the module documentation.

use pagewell_frame::{FrameNr, FrameView};

/// Prefetches the first of the `len` bytes at `off` of the page at `frame`, which a slot of the
/// caller's index has named. Panics if the bytes are not all within `page_size` bytes.
#[inline(always)]
#[track_caller]
pub(super) fn expect_write(
    view: FrameView,
    (frame, page_size): (FrameNr, usize),
    off: usize,
    len: usize,
) {
    let inside = off <= page_size && len <= page_size - off;
    assert!(inside, "the edit is not within a page");
    // SAFETY: (P) views are in indices, and those in mappings, which own a reference to the pool.
    // (F) Slots only name blocks of the pool, of the file's page size. (W) Nothing is written.
    unsafe { view.bytes(frame.get(), off, len) }.expect_write();
}
