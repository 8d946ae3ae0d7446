//! Unsafe steps of claims and leaves. Their callers in `index` ensure its invariants.

#![allow(unsafe_code)] // See the module documentation.

use pagewell_frame::{FRAME_WORDS, FrameNr, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

use crate::index::claims::Claims;

pub(super) fn leaf_slots<'l>(leaf: &'l FrameRef<'_>) -> &'l [AtomicU64] {
    let [address, _] = leaf.meta().private();
    let start = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
    // SAFETY: the frame is a leaf (the only caller, `Leaf`, ensures that) and stays one while the
    // reference exists. Its metadata has the address of its slots in the array of its file's index
    // (`publish::leaf` exposed it). The array is unmapped only after all leaves of the file are
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
pub(crate) fn published(claims: &Claims, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the callers have just published the frame with a reference for this handle.
    unsafe { FrameRef::from_raw(&claims.pool, frame) }
}

/// Returns the reference of a slot to its page's frame, for the holder of the slot's claim.
pub(super) fn slots_reference(claims: &Claims, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) a slot that names a frame has a reference, which only the holder of its claim,
    // the caller, may take or drop. The caller empties the slot or puts the reference back.
    unsafe { FrameRef::from_raw(&claims.pool, frame) }
}

/// Returns the reference to `leaf` of a slot that was just emptied.
pub(super) fn leafs_reference(claims: &Claims, leaf: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) I2 of the index: the slot that the caller has just emptied had a reference.
    unsafe { FrameRef::from_raw(&claims.pool, leaf) }
}
