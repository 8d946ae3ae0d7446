//! Leaves: the slots of neighbouring pages, and the frame whose record says who uses them ([`super::file_index`]).

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameKind, FrameRef, UniqueFrame};
use pagewell_sync::atomic::AtomicU64;

use crate::base::page::PageNr;
use crate::index::raw;

/// A leaf, held: it stays in use as long as the handle exists.
#[derive(Debug)]
pub(crate) struct Leaf<'s, S: RefScheme> {
    pub(crate) reference: FrameRef<'s, S>,
}

impl<'s, S: RefScheme> Leaf<'s, S> {
    /// Makes a handle of a reference, if it is to a leaf.
    pub(crate) fn from_reference(reference: FrameRef<'s, S>) -> Option<Self> {
        // The kind of a frame that is held does not change.
        let (kind, _) = reference.meta().kind();
        (kind == FrameKind::Leaf).then_some(Self { reference })
    }

    /// The slot at position `slot` of the leaf.
    pub(crate) fn slot(&self, slot: usize) -> &AtomicU64 {
        &raw::leaf_slots(&self.reference)[slot]
    }

    /// Where a page's slot is in its leaf.
    pub(crate) const fn slot_of(page: PageNr) -> usize {
        (page % FRAME_WORDS as u64) as usize
    }

    /// Which leaf a page belongs to.
    pub(crate) const fn of(page: PageNr) -> usize {
        (page / FRAME_WORDS as u64) as usize
    }

    /// The first page that belongs to leaf number `leaf`.
    pub(crate) const fn first_page(leaf: usize) -> PageNr {
        leaf as u64 * FRAME_WORDS as u64
    }

    /// Freezes the leaf if this handle's reference and the root's are the only ones.
    pub(crate) fn freeze_with_roots(self) -> Result<UniqueFrame<'s, S>, Self> {
        raw::freeze_with_roots(self.reference).map_err(|reference| Self { reference })
    }
}
