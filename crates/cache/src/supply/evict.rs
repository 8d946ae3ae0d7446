//! Evicting one page, or one leaf whose slots are all empty: whatever the record of a frame says, checked against the slot.
//!
//! Protocol. The record of a page's frame says which slot of which leaf names it. Who evicts takes a reference to the leaf,
//! checks that it is one, checks the slot, and claims it ([`crate::index::claim`]). So it needs no access to the mapping, and
//! nothing that a closing file could take away under it. It waits for nothing: what is claimed by others is passed over.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::Ordering;

use crate::base::slot::{Slot, State};
use crate::index::claim::Claim;
use crate::index::leaf::Leaf;
use crate::supply::counters::Event;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::Marks;

/// Evicts what a frame holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evictor<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<'s, S: RefScheme> Evictor<'s, S> {
    /// Evicts what `frame` holds, if that can be done at once.
    pub(crate) fn try_evict(self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'s, S>> {
        // What the record says is a hint until something is held; each branch checks it.
        match self.0.pool().meta(frame).kind().0 {
            FrameKind::Page => self.try_evict_page(frame, marks),
            FrameKind::Leaf => self.try_evict_leaf(frame),
            FrameKind::Tail
            | FrameKind::Free
            | FrameKind::Front
            | FrameKind::Owned
            | FrameKind::Raw
            | FrameKind::Held
            | FrameKind::Anon
            | FrameKind::Table
            | FrameKind::Leaked => None,
        }
    }

    fn try_evict_page(self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'s, S>> {
        let (leaf, position, slot) = self.slot_of(frame)?;
        if slot.is_hot() && marks == Marks::Respected {
            unmark(&leaf, position, slot);
            return None;
        }
        let unique = Claim::try_new(&self.0.claims, leaf, position, slot)
            .ok()?
            .evict()?;
        self.0.counters.add(Event::Eviction, 1);
        Some(unique)
    }

    /// The slot that names the page in `frame`: its leaf, where it is in it, and what it says.
    pub(crate) fn slot_of(self, frame: FrameNr) -> Option<(Leaf<'s, S>, usize, Slot)> {
        // What the record says is a hint until the slot says the same.
        let (leaf, position) = self.0.pool().meta(frame).owner();
        let leaf = u32::try_from(leaf).ok()?;
        let position = usize::try_from(position).ok()?;
        if leaf as usize >= self.0.pool().nr_frames() || position >= FRAME_WORDS {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(FrameNr::new(leaf)) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // ORDERING: Acquire; the compare-and-swap of a claim would do, but a slot that has changed should
        // be seen before it is tried.
        let slot = Slot::from_bits(leaf.slot(position).load(Ordering::Acquire));
        (slot.state() == State::Present(frame)).then_some((leaf, position, slot))
    }

    /// Takes the leaf in `frame` out of its file's index, if none of its slots is in use.
    fn try_evict_leaf(self, frame: FrameNr) -> Option<UniqueFrame<'s, S>> {
        // A leaf in use has more references than the root's: most are passed over without a write.
        if self.0.pool().meta(frame).count() > 1 {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.0.pool().try_get(frame) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // Held, the leaf keeps its owner; the mapping may be going away, and then takes the leaf with it.
        let (number, position) = leaf.reference.meta().owner();
        let position = usize::try_from(position).ok()?;
        let owners = self.0.owners.get()?.upgrade()?;
        owners.take_leaf(&self.0.claims, number, position, leaf)
    }
}

/// Takes the referenced mark off a slot.
pub(crate) fn unmark<S: RefScheme>(leaf: &Leaf<'_, S>, position: usize, slot: Slot) {
    // ORDERING: Relaxed; the mark is a hint. If the slot changed meanwhile, the mark is not ours to clear.
    let _ = leaf.slot(position).compare_exchange(
        slot.bits(),
        slot.without_referenced().bits(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}
