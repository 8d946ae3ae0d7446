//! Unsafe steps of reads and pins, and a write's prefetch ([`expect_write`]), as safe functions
//! whose callers ensure the invariants.

#![allow(unsafe_code)] // See the module documentation.

#[cfg(test)]
use pagewell_frame::{FrameKind, UniqueFrame};
use pagewell_frame::{FrameNr, FramePool, FrameRef, FrameView, OwnedHold};
use pagewell_sync::Arc;
use pagewell_sync::bytes::RacySource;
use pagewell_sync::prefetch::prefetch;

use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;

/// Copies `dst.len()` bytes from byte `off` of the page at `frame`, all within the page. A slot of
/// the caller's index has named `frame`.
#[inline]
pub(super) fn copy_page(view: FrameView, frame: u32, off: usize, dst: &mut [u8]) {
    // SAFETY: (P) views are in indices, and those in mappings, which own a reference to the pool.
    // (F) Slots only name blocks of the pool, of the file's page size. (D) The caller owns `dst`.
    unsafe { view.copy_to(frame, off, dst.as_mut_ptr(), dst.len()) };
}

/// Copies as [`copy_page`] does, with the code for all lengths inlined.
#[inline(always)]
pub(super) fn copy_page_inlined(view: FrameView, frame: u32, off: usize, dst: &mut [u8]) {
    // SAFETY: (P) and (F) as for `copy_page`. (W) Nothing is written.
    let bytes = unsafe { view.bytes(frame, off, dst.len()) };
    bytes.copy_to_inlined(0, dst);
}

/// Prefetches bytes of a page. The requirements of [`copy_page`] apply.
#[inline]
pub(super) fn prefetch_page(view: FrameView, frame: u32, off: usize, len: usize) {
    // SAFETY: (P) and (F) as for `copy_page`. (W) Nothing is written or read.
    let bytes = unsafe { view.bytes(frame, off, len) };
    let start = bytes.as_ptr();
    prefetch(start);
    if len > 64 {
        for more in (64..len).step_by(64) {
            prefetch(start.wrapping_add(more));
        }
    }
    // The last byte may be on one more line.
    prefetch(start.wrapping_add(len.saturating_sub(1)));
}

/// Returns the first `len` bytes of the page at `frame`, which other threads may be writing. The
/// requirements of [`copy_page`] apply. The caller's mapping lives as long as `'a`.
#[inline(always)]
pub(super) fn racy_page<'a>(view: FrameView, frame: u32, len: usize) -> RacySource<'a> {
    // SAFETY: (P) and (F) as for `copy_page`; the mapping is borrowed for `'a`. (W) The returned
    // value only permits reads.
    unsafe { view.bytes(frame, 0, len) }.source()
}

/// Publishes `frame` in a hazard slot with a reference to the pool ([`OwnedHold::try_announce`]).
#[inline(always)]
pub(super) fn try_announce_owned(
    mapping: &Mapping,
    frame: FrameNr,
    is_still: impl FnOnce() -> bool,
) -> Option<OwnedHold<Shared>> {
    // SAFETY: (P) the pool is a field of the value that the cache's files share, which is not moved
    // out of its `Arc`. (L) The mapping keeps the cache's `Files`, which contains the only
    // `PoolOwner`; so both exist while the mapping is borrowed.
    unsafe { OwnedHold::try_announce(&mapping.shared, frame, is_still) }
}

#[inline]
pub(super) fn owned_counted(mapping: &Mapping, reference: FrameRef<'_>) -> OwnedHold<Shared> {
    // SAFETY: (P) as above.
    unsafe { OwnedHold::counted(Arc::clone(&mapping.shared), reference) }
}

/// Returns the reference that a test keeps as a bare number.
#[cfg(test)]
pub(crate) fn kept_reference(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the test decomposed the reference, and calls this function once for it.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Publishes a block whose reference a test keeps as a bare number ([`kept_reference`]).
#[cfg(test)]
pub(crate) fn keep(block: UniqueFrame<'_>) -> FrameNr {
    // SAFETY: (K) the metadata of a `Raw` block has no further meaning.
    unsafe { block.publish(FrameKind::Raw, (0, 0), 1) }
}

/// Returns the first `len` bytes of a page that a guard holds.
pub(super) fn pinned_slice(pool: &FramePool, frame: FrameNr, len: usize) -> &[u8] {
    // SAFETY: (P) the pool is borrowed. (F) The page is of this pool, and has `len` bytes. (W)
    // Nothing is written.
    let bytes = unsafe { pool.view().bytes(frame.get(), 0, len) };
    // SAFETY: the range is the page's. The only callers are guards, which lend the slice for as
    // long as they hold the page. A page is written only before it is published, or while its frame
    // is frozen, which the guard's reference prevents: a counted one, or the protection (`pinner`).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}

/// Prefetches the first of the `len` bytes at `off` of the page at `frame`, which a slot of the
/// caller's index has named. Panics if the bytes are not all within `page_size` bytes.
#[inline(always)]
#[track_caller]
pub(crate) fn expect_write(
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
