//! Eviction of one page, or of one leaf whose slots are all empty.
//!
//! Protocol. The metadata of a page's frame records the leaf and the slot that name the page. The
//! eviction takes a reference to the leaf, checks that the frame is a leaf, checks the slot, and
//! claims it ([`crate::index::claim`]). So it accesses neither the mapping nor anything else that a
//! closing file could remove. It waits for nothing, and skips claimed slots. The eviction of a leaf
//! changes the file's index, so it acquires a weak reference to the file ([`super::parts`]).
//!
//! A claim makes optimistic reads of the page fail. So a page that cannot be evicted according to
//! its frame's metadata ([`Stays::of`]) is not claimed. Under a claim, this hint is checked again.

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, Order, TryGetFrame, UniqueFrame};
use pagewell_policy::Ghost;
use pagewell_sync::atomic::Ordering;

use crate::base::slot::{Slot, State};
use crate::index::claim::{Claim, Leaf};
use crate::supply::census::Stays;
use crate::supply::clock::Marks;
use crate::supply::parts::{Event, Supply};

pub(crate) type SeenSlot<'s> = (Leaf<'s>, usize, Slot);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Evictor<'s>(pub(crate) &'s Supply);

impl<'s> Evictor<'s> {
    pub(crate) fn try_evict(self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'s>> {
        self.evict(frame, marks).ok()
    }

    /// Evicts the content of `frame`, or returns the reason why not, and the order of its block.
    #[inline]
    pub(crate) fn evict(
        self,
        frame: FrameNr,
        marks: Marks,
    ) -> Result<UniqueFrame<'s>, (Stays, Order)> {
        // A hint until this thread has a reference. Each branch checks it again.
        let record = self.0.pool().meta(frame);
        let (stays, kind, order) = Stays::of(record);
        let evicted = match stays {
            Some(stays) => Err(stays),
            None if kind == FrameKind::Leaf => self.try_evict_leaf(frame).ok_or(Stays::Raced),
            None => self.evict_page(frame, marks),
        };
        if let Err(Stays::Held) = evicted {
            // Query the frame: hazard protection, which a scan can end, may be its other reference.
            self.0.pool().doubt(frame);
        }
        evicted.map_err(|stays| (stays, order))
    }

    #[inline(never)] // Checks of frames that are not freed must be fast, for a whole pass.
    fn evict_page(self, frame: FrameNr, marks: Marks) -> Result<UniqueFrame<'s>, Stays> {
        let (leaf, position, slot) = self.slot_of(frame).ok_or(Stays::Raced)?;
        if slot.is_hot() && marks == Marks::Respected {
            unmark(&leaf, position, slot);
            return Err(Stays::Marked);
        }
        let unique = self
            .evict_from((leaf, position, slot), None)
            .ok_or(Stays::Raced)?;
        self.0.counters.add(Event::Eviction, 1);
        Ok(unique)
    }

    /// Evicts the page in `frame`, even if its accessed bit is set, and leaves `ghost` in the slot.
    /// `seen` is the page's slot, if just loaded. Returns the page's block and the frame of its
    /// leaf, or `None` if the page cannot be evicted at once, or its slot has changed since `seen`.
    /// The caller counts the eviction.
    pub(crate) fn evict_unmarked(
        self,
        frame: FrameNr,
        seen: Option<SeenSlot<'s>>,
        ghost: Ghost,
    ) -> Option<(UniqueFrame<'s>, FrameNr)> {
        let (stays, kind, _) = Stays::of(self.0.pool().meta(frame));
        if stays == Some(Stays::Held) {
            self.0.pool().doubt(frame);
        }
        if stays.is_some() || kind != FrameKind::Page {
            return None;
        }
        let seen = seen.or_else(|| self.slot_of(frame))?;
        let leaf = seen.0.reference.frame();
        Some((self.evict_from(seen, Some(ghost))?, leaf))
    }

    fn evict_from(
        self,
        (leaf, position, slot): SeenSlot<'s>,
        ghost: Option<Ghost>,
    ) -> Option<UniqueFrame<'s>> {
        let claim = Claim::try_new(&self.0.claims, leaf, position, slot).ok()?;
        claim.evict(ghost)
    }

    /// Returns the slot of the page in `frame`, unless it has no page or the page is changing.
    pub(crate) fn slot_of(self, frame: FrameNr) -> Option<SeenSlot<'s>> {
        let (leaf, position) = self.0.pool().meta(frame).owner();
        let leaf = u32::try_from(leaf).ok()?;
        let position = position as usize;
        if leaf as usize >= self.0.pool().nr_frames() || position >= FRAME_WORDS {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(FrameNr::new(leaf)) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // ORDERING: Acquire; rejects a changed slot here, before the claim, which acquires too.
        let slot = Slot::from_bits(leaf.slot(position).load(Ordering::Acquire));
        (slot.state() == State::Present(frame)).then_some((leaf, position, slot))
    }

    /// Returns `None` if the leaf in `frame` is in use, or its file is not open.
    fn try_evict_leaf(self, frame: FrameNr) -> Option<UniqueFrame<'s>> {
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(frame) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // With the handle, the leaf keeps its owner. If the file is being closed, the eviction
        // fails, and the teardown of the mapping removes the leaf.
        let (number, leaf_nr) = leaf.reference.meta().owner();
        let owners = self.0.owners.get()?.upgrade()?;
        owners.take_leaf(number, leaf_nr as usize, leaf)
    }
}

/// Clears the accessed bit of a slot, unless the slot differs from `slot`.
pub(crate) fn unmark(leaf: &Leaf<'_>, position: usize, slot: Slot) {
    // ORDERING: Relaxed; the bit is a hint.
    let _ = leaf.slot(position).compare_exchange(
        slot.bits(),
        slot.without_referenced().bits(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}
