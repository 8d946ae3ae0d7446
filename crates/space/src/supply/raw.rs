//! References to frames that were kept as bare numbers, taken up again.

#![allow(unsafe_code)] // References that the compiler cannot follow.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool, FrameRef, UniqueFrame};

/// The one reference that the entries of a page, or the shares of a table, have: for whoever has brought their count
/// down to zero.
pub(crate) fn counted_reference<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
) -> FrameRef<'_, S> {
    // SAFETY: (A) the frame was published with a reference on behalf of what is counted; the count was brought to
    // zero by the caller alone, from where it does not come back, and the caller calls this once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// A frame that the stock of tables kept as a bare number.
pub(crate) fn withheld<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) the stock took the handle apart, and takes the number off its list before it calls this.
    unsafe { UniqueFrame::from_withheld(pool, frame) }
}

/// A reference that a pin kept as a bare number.
pub(crate) fn pins_reference<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the pin took the reference apart when it was made and calls this once, when it is dropped.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// The first `len` bytes of a pinned page from `off` on.
#[cfg(not(loom))]
pub(crate) fn pinned_slice<S: RefScheme>(
    pool: &FramePool<S>,
    frame: FrameNr,
    off: usize,
    len: usize,
) -> &[u8] {
    let bytes = pool.bytes(frame, off + len).slice(off, len);
    // SAFETY: the range is of the pool, as was just checked, which stays mapped while it lives. Its bytes do not change
    // while the caller, who hands the slice out, has its reference: a page is written where it is only through an entry
    // that is marked writable, which the pin has taken off under the entry's claim, and which comes back only when
    // there are no references but the counted one (`cow`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}
