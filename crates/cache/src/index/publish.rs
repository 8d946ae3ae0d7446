//! Publishing frames as pages of files, and as leaves of their indices. From then on other code relies on their records.
//!
//! Place. Fills and writes publish pages, [`super::file_index`] publishes leaves.

#![allow(unsafe_code)] // The duty of `UniqueFrame::publish`, which callers inside the crate keep.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

/// Publishes a frame as that of a page, with `refs` references. `place` is the page's slot: the frame of its leaf, and the
/// position in the leaf. The caller has claimed the slot. `private` is the page's state, and its log sequence number.
#[inline]
pub(crate) fn page<S: RefScheme>(
    frame: UniqueFrame<'_, S>,
    place: (u64, u64),
    private: [u64; 2],
    refs: u32,
) -> FrameNr {
    // SAFETY: (K) pages in a cache's pool are the cache's, whose crate alone calls this, with words as said above.
    unsafe { frame.publish_with(FrameKind::Page, place, private, refs) }
}

/// Publishes a frame as a leaf of an index, whose slots are `slots`: with a reference for the root and one for the caller. `place` is
/// the number of the file, and that of the leaf in it. `floor` is the least version that its slots have.
pub(crate) fn leaf<S: RefScheme>(
    frame: UniqueFrame<'_, S>,
    place: (u64, u64),
    slots: &[AtomicU64],
    floor: u64,
) -> FrameNr {
    debug_assert_eq!(slots.len(), FRAME_WORDS);
    let private = [slots.as_ptr().expose_provenance() as u64, floor];
    // SAFETY: (K) leaves in a cache's pool are the cache's, whose crate alone calls this; the address is that of the
    // leaf's slots, on which every holder of the leaf relies ([`super::raw::leaf_slots`]).
    unsafe { frame.publish_with(FrameKind::Leaf, place, private, 2) }
}
