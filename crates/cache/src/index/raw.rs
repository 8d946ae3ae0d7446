//! The unsafe steps of claims and leaves, each as a safe function. Invariants of this room are the duties of their callers.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameNr, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

use crate::index::claims::Claims;

/// The slots of a leaf, held by a reference to its frame.
pub(super) fn leaf_slots<'l, S: RefScheme>(leaf: &'l FrameRef<'_, S>) -> &'l [AtomicU64] {
    let [address, _] = leaf.meta().private();
    let start = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
    // SAFETY: the frame is a leaf, as the only caller (`Leaf`) knows, and stays one while the reference exists. Its record
    // has the address of its slots in the array of its file's index (`publish::leaf`, which exposed it), which is
    // unmapped only after all leaves of the file have been taken out, and this one cannot be while the reference exists.
    unsafe { std::slice::from_raw_parts(start, FRAME_WORDS) }
}

/// Freezes a leaf's frame if the caller's reference and the root's are the only ones.
pub(super) fn freeze_with_roots<S: RefScheme>(
    reference: FrameRef<'_, S>,
) -> Result<UniqueFrame<'_, S>, FrameRef<'_, S>> {
    // SAFETY: (A) with two references in all, one is the caller's and one is the root's. Only a thread that
    // freezes the leaf drops the root's, so the freeze makes it the caller's.
    unsafe { reference.freeze(2) }
}

/// The reference that came with publishing a frame.
pub(crate) fn published<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) the callers have just published the frame with a reference for this handle.
    unsafe { FrameRef::from_raw(&claims.pool, frame) }
}

/// The reference of a slot, which belongs to the holder of the slot's claim.
pub(super) fn slots_reference<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) a slot that names a frame has a reference to it, and only the holder of the slot's
    // claim, our caller, may take or drop that. It either empties the slot or puts the reference back.
    unsafe { FrameRef::from_raw(&claims.pool, frame) }
}

/// The reference to a leaf that its non-empty slot has, and that has to be dropped when the slot is emptied.
pub(super) fn leafs_reference<S: RefScheme>(claims: &Claims<S>, leaf: FrameNr) -> FrameRef<'_, S> {
    // SAFETY: (A) I2 of the index: the slot that the caller has just emptied had a reference.
    unsafe { FrameRef::from_raw(&claims.pool, leaf) }
}
