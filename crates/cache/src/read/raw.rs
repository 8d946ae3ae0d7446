//! The unsafe steps of reads and pins, each as a safe function. Invariants of this room are the duties of their callers.

#![allow(unsafe_code)] // See above.

#[cfg(any(test, not(loom)))]
use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
#[cfg(test)]
use pagewell_frame::{FrameKind, UniqueFrame};
use pagewell_frame::{FrameNr, FrameRef, FrameView, OwnedHold};
use pagewell_sync::Arc;
use pagewell_sync::bytes::RacySource;
#[cfg(not(loom))]
use pagewell_sync::prefetch::prefetch;

use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;

/// Copies `dst.len()` bytes of a page from byte `off` of it on. The page begins at `frame`, which a slot of
/// the caller's index has named; `off + dst.len()` is within the page.
#[inline]
pub(super) fn copy_page<S: RefScheme>(view: FrameView<S>, frame: u32, off: usize, dst: &mut [u8]) {
    // SAFETY: (P) views are kept in indices, and those in mappings, which own a share of the pool. (F) slots
    // only ever name blocks of the pool, of the size of the file's pages. (D) the buffer is the caller's own.
    unsafe { view.copy_to(frame, off, dst.as_mut_ptr(), dst.len()) };
}

/// Asks for the lines of some bytes of a page, as of those that [`copy_page`] copies.
#[cfg(not(loom))]
#[inline]
pub(super) fn prefetch_page<S: RefScheme>(view: FrameView<S>, frame: u32, off: usize, len: usize) {
    // SAFETY: (P) and (F) as for `copy_page`; (W) nothing is written, or read.
    let bytes = unsafe { view.bytes(frame, off, len) };
    let start = bytes.as_ptr();
    prefetch(start);
    if len > 64 {
        for more in (64..len).step_by(64) {
            prefetch(start.wrapping_add(more));
        }
    }
    // The last byte may be on one line more.
    prefetch(start.wrapping_add(len.saturating_sub(1)));
}

/// The first `len` bytes of a page, which others may be writing. The page begins at `frame`, which a slot of the caller's index has
/// named, and has as many bytes; the caller's mapping lives as long as `'a`.
#[inline(always)]
pub(super) fn racy_page<'a, S: RefScheme>(
    view: FrameView<S>,
    frame: u32,
    len: usize,
) -> RacySource<'a> {
    // SAFETY: (P) and (F) as for `copy_page`; the mapping is borrowed for as long as the bytes are used. (W) nothing is written: what
    // is handed out can only be read.
    unsafe { view.bytes(frame, 0, len) }.source()
}

/// An announced reference to `frame` that borrows nothing, as [`OwnedHold::try_announce`] says.
#[inline(always)]
pub(super) fn try_announce_owned<S: RefScheme>(
    mapping: &Mapping<S>,
    frame: FrameNr,
    is_still: impl FnOnce() -> bool,
) -> Option<OwnedHold<Shared<S>>> {
    // SAFETY: (P) the pool is a field of what the cache's files share, which is not moved out of its `Arc`. (L) The mapping keeps the owner of all files,
    // which has the only owner of the pool; so both are there while the mapping is borrowed.
    unsafe { OwnedHold::try_announce(mapping.shared_arc(), frame, is_still) }
}

/// The counted `reference`, which borrows nothing any more.
pub(super) fn owned_counted<S: RefScheme>(
    mapping: &Mapping<S>,
    reference: FrameRef<'_, S>,
) -> OwnedHold<Shared<S>> {
    // SAFETY: (P) as above.
    unsafe { OwnedHold::counted(Arc::clone(mapping.shared_arc()), reference) }
}

/// The reference that a test keeps as a bare number.
#[cfg(test)]
pub(crate) fn kept_reference<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the test took the reference apart, and calls this once for it.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Makes a block one that a test manages itself; its reference is a bare number ([`kept_reference`]).
#[cfg(test)]
pub(crate) fn keep<S: RefScheme>(block: UniqueFrame<'_, S>) -> FrameNr {
    // SAFETY: (K) the record of a `Raw` block says nothing more.
    unsafe { block.publish(FrameKind::Raw, (0, 0), 1) }
}

/// The first `len` bytes of a page that a guard holds, by a counted reference or an announced one.
#[cfg(not(loom))]
pub(super) fn pinned_slice<S: RefScheme>(pool: &FramePool<S>, frame: FrameNr, len: usize) -> &[u8] {
    // SAFETY: (P) the pool is borrowed; (F) the page is of this pool, and has `len` bytes; (W) nothing is written.
    let bytes = unsafe { pool.view().bytes(frame.get(), 0, len) };
    // SAFETY: the range is the page's. The only callers are guards, which hand the slice out for as long as they have a reference to the page.
    // A page is written only before it is published, or while its frame is frozen; while there is a reference no freeze succeeds, since it is
    // counted, or one is counted for it that stays until it has ended (`pinner`). So its bytes do not change.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), len) }
}
