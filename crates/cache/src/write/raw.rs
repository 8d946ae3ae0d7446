//! The unsafe step of writes, as a safe function that checks what it needs.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FrameView};

/// Prefetches the first of the `len` bytes of a page from byte `off` of it on, which are about to be written. The
/// page begins at `frame`, which a slot of the caller's index has named.
///
/// # Panics
///
/// When the bytes are not all in a page of `page_size` bytes.
#[inline(always)]
#[track_caller]
pub(super) fn expect_write<S: RefScheme>(
    view: FrameView<S>,
    (frame, page_size): (FrameNr, usize),
    off: usize,
    len: usize,
) {
    let inside = off <= page_size && len <= page_size - off;
    assert!(inside, "an edit that is not within a page");
    // SAFETY: (P) views are kept in indices, and those in mappings, which own a share of the pool. (F) slots only ever name
    // blocks of the pool, of the size of the file's pages. (W) nothing is written.
    unsafe { view.bytes(frame.get(), off, len) }.expect_write();
}
