//! Publication of frames as pages and leaves. Unsafe code elsewhere relies on their metadata.

#![allow(unsafe_code)] // The obligation of `UniqueFrame::publish`; callers in this crate meet it.

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

/// Publishes the frame of a page, with `refs` references. `place` is the frame of the page's leaf,
/// and the claimed slot's position in it. `private` is the page's state and log sequence number.
#[inline]
pub(crate) fn page(
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
pub(crate) fn leaf(
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
