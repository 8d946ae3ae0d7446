//! Leaves: slots of neighbouring pages, with a frame for their references ([`super::file_index`]).

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

use crate::base::page::PageNr;
use crate::index::raw;

/// Leaf handle: a counted reference that keeps the leaf in use.
#[derive(Debug)]
pub(crate) struct Leaf<'s> {
    pub(crate) reference: FrameRef<'s>,
}

impl<'s> Leaf<'s> {
    /// Returns `None` if the frame is not a leaf.
    pub(crate) fn from_reference(reference: FrameRef<'s>) -> Option<Self> {
        // The kind of a referenced frame does not change.
        let (kind, _) = reference.meta().kind();
        (kind == FrameKind::Leaf).then_some(Self { reference })
    }

    pub(crate) fn slot(&self, slot: usize) -> &AtomicU64 {
        &raw::leaf_slots(&self.reference)[slot]
    }

    pub(crate) const fn slot_of(page: PageNr) -> usize {
        (page % FRAME_WORDS as u64) as usize
    }

    pub(crate) const fn of(page: PageNr) -> usize {
        (page / FRAME_WORDS as u64) as usize
    }

    pub(crate) const fn first_page(leaf: usize) -> PageNr {
        leaf as u64 * FRAME_WORDS as u64
    }

    pub(crate) fn freeze_with_roots(self) -> Result<UniqueFrame<'s>, Self> {
        raw::freeze_with_roots(self.reference).map_err(|reference| Self { reference })
    }
}
