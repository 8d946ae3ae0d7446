//! Unsafe steps of claims and leaves: publication of frames as pages and leaves, on whose metadata
//! unsafe code elsewhere relies, and references. The callers ensure the invariants of `index`.

#![allow(unsafe_code)] // See the module documentation.

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, FramePool, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

pub(super) fn leaf_slots<'l>(leaf: &'l FrameRef<'_>) -> &'l [AtomicU64] {
    let [address, _] = leaf.meta().private();
    let start = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
    // SAFETY: the frame is a leaf (the only caller, `Leaf`, ensures that) and stays one while the
    // reference exists. Its metadata has the address of its slots in the array of its file's index
    // (`publish_leaf` exposed it). The array is unmapped only after all leaves of the file are
    // removed, which the reference prevents.
    unsafe { std::slice::from_raw_parts(start, FRAME_WORDS) }
}

/// Freezes a leaf's frame if only the caller and the root have references.
pub(super) fn freeze_with_roots(reference: FrameRef<'_>) -> Result<UniqueFrame<'_>, FrameRef<'_>> {
    // SAFETY: (A) of two references in total, one is the caller's and one the root's. Only a thread
    // that freezes the leaf drops the root's reference, so the freeze transfers it to the caller.
    unsafe { reference.freeze(2) }
}

/// Returns the reference that the publication of a frame created for the caller.
pub(crate) fn published(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the callers have just published the frame with a reference for this handle.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Returns the reference of a slot to its page's frame, for the holder of the slot's claim.
pub(super) fn slots_reference(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) a slot that names a frame has a reference, which only the holder of its claim,
    // the caller, may take or drop. The caller empties the slot or puts the reference back.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// Returns the reference to `leaf` of a slot that was just emptied.
pub(super) fn leafs_reference(pool: &FramePool, leaf: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) I2 of the index: the slot that the caller has just emptied had a reference.
    unsafe { FrameRef::from_raw(pool, leaf) }
}

/// Restores the handle of a withheld frame. `frame` comes from [`UniqueFrame::into_withheld`] of a
/// frame of `pool`, and the caller passes it here only once.
pub(crate) fn withheld(pool: &FramePool, frame: FrameNr) -> UniqueFrame<'_> {
    // SAFETY: (A) the caller ensures it, as the documentation above requires.
    unsafe { UniqueFrame::from_withheld(pool, frame) }
}

/// Publishes the frame of a page, with `refs` references. `place` is the frame of the page's leaf,
/// and the claimed slot's position in it. `private` is the page's state and log sequence number.
#[inline]
pub(crate) fn publish_page(
    frame: UniqueFrame<'_>,
    place: (u64, u64),
    private: [u64; 2],
    refs: u32,
) -> FrameNr {
    // SAFETY: (K) only the cache publishes pages in its pool, and only here, with the words above.
    unsafe { frame.publish_with(FrameKind::Page, place, private, refs) }
}

/// Publishes a frame as the leaf with `slots`, with one reference for the root and one for the
/// caller. `place` is the file's and the leaf's number; `floor` is the minimum slot version.
pub(crate) fn publish_leaf(
    frame: UniqueFrame<'_>,
    place: (u64, u64),
    slots: &[AtomicU64],
    floor: u64,
) -> FrameNr {
    debug_assert_eq!(slots.len(), FRAME_WORDS);
    let private = [slots.as_ptr().expose_provenance() as u64, floor];
    // SAFETY: (K) only the cache publishes leaves in its pool, and only here. Holders of the leaf
    // rely on the address of its slots (`raw::leaf_slots`).
    unsafe { frame.publish_with(FrameKind::Leaf, place, private, 2) }
}
