//! Reclaim of blocks: frames in a row, for pages larger than a frame.
//!
//! To evict pages one by one until some of them happen to be neighbours could take all of them. So a
//! request first looks for a place where it is sure to succeed, as far as one can be among other threads,
//! and evicts only there:
//!
//! 1. Look at the places of a block of the wanted order, from the hand on, without changing more than marks.
//!    A place is fit if each frame in it is free, or has a page or a leaf that nobody holds (and, in gentle
//!    rounds, that is not marked).
//! 2. Take what is free in a fit place, so that nobody else allocates it.
//! 3. Evict the rest, frame by frame.
//! 4. Make one block of all the parts.
//!
//! If somebody pins a page of the place between 1 and 3, or takes a frame of it, what was evicted in vain is
//! freed, straight to its node, and the next place is tried: [`TRIES`] of them in a round.
//!
//! What cannot move. A leaf in use stays where it is as long as it has pages, wherever those are, and a
//! frame that the budget withholds stays withheld. When no place is fit for anything less, a leaf is freed by
//! evicting all its pages: leaves are in every place only where each has few pages. Withheld frames are few (one
//! for some open files, or for a root of 512 leaves) and are reckoned as pinned.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, Order, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::Ordering;

use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::leaf::Leaf;
use crate::supply::evict::{Evictor, unmark};
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::{Among, Marks};
use crate::supply::reclaim::effort::{Effort, Shortage};

/// How many places a round tries that looked fit and were not.
const TRIES: u32 = 4;

/// What a place is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Everything in it is free or can be evicted at once.
    Fit,
    /// It will be fit when frames that somebody is filling now are pages.
    Soon,
    Unfit,
}

/// Puts blocks together.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFinder<'s, S: RefScheme>(pub(super) &'s Supply<S>);

impl<'s, S: RefScheme> BlockFinder<'s, S> {
    /// Goes round until a block of `order`, which is not zero, was put together.
    pub(super) fn find(
        self,
        order: Order,
        effort: Effort,
        among: Among,
    ) -> Result<UniqueFrame<'s, S>, Shortage> {
        let withheld = self.0.budget.withheld();
        let mut nr_tries = 0;
        let mut nr_loose = 0;
        let mut is_hopeful = false;
        for first in self
            .0
            .clock
            .lap(self.0.pool(), order, effort.marks(), among)
        {
            let (look, loose) = self.look(first, order, effort, &withheld);
            nr_loose += loose as usize;
            match look {
                Look::Unfit => {}
                Look::Soon => is_hopeful = true,
                Look::Fit => {
                    if let Some(block) = self.take_place(first, order, effort) {
                        return Ok(block);
                    }
                    nr_tries += 1;
                    if nr_tries == TRIES {
                        break;
                    }
                }
            }
        }
        let nr_wanted = order.frames();
        let reason = if nr_loose < nr_wanted as usize {
            OutOfFrames::InUse
        } else {
            OutOfFrames::Fragmented {
                nr_wanted,
                nr_loose,
            }
        };
        Err(Shortage {
            reason,
            until_transfers_end: is_hopeful,
        })
    }

    /// What the place of a block of `order` at `first` is good for, and how many frames in it are free or
    /// can be evicted. Takes the marks off its pages if it is fit but for them and they are respected.
    fn look(
        self,
        first: FrameNr,
        order: Order,
        effort: Effort,
        withheld: &[FrameNr],
    ) -> (Look, u32) {
        if !self.0.pool().may_be_block(first, order) {
            return (Look::Unfit, 0);
        }
        // Records change under our eyes; what is wrong is found out when the place is taken.
        let mut is_fit = true;
        let mut is_filling = false;
        let mut has_used_leaves = false;
        let mut nr_loose = 0;
        for (frame, kind, len) in self.heads(first, order) {
            let nr_users = self.0.pool().meta(frame).count();
            match kind {
                FrameKind::Free | FrameKind::Front => nr_loose += len,
                FrameKind::Page if !PageState::of(self.0.pool().meta(frame)).may_go() => {
                    is_fit = false
                }
                FrameKind::Page | FrameKind::Leaf if nr_users == 1 => nr_loose += len,
                FrameKind::Leaf if effort == Effort::Thorough => has_used_leaves = true,
                FrameKind::Owned if withheld.binary_search(&frame).is_err() => is_filling = true,
                FrameKind::Page
                | FrameKind::Leaf
                | FrameKind::Owned
                | FrameKind::Tail
                | FrameKind::Raw
                | FrameKind::Held
                | FrameKind::Anon
                | FrameKind::Table
                | FrameKind::Leaked => {
                    is_fit = false;
                }
            }
        }
        let look = if !is_fit
            || (has_used_leaves && !self.could_empty_leaves(first, order))
            || (effort == Effort::Gentle && self.take_marks(first, order))
        {
            Look::Unfit
        } else if is_filling {
            Look::Soon
        } else {
            Look::Fit
        };
        (look, nr_loose)
    }

    /// The heads of the blocks in the place of a block of `order` at `first`, with their kinds and how many
    /// frames each has in the place.
    fn heads(
        self,
        first: FrameNr,
        order: Order,
    ) -> impl Iterator<Item = (FrameNr, FrameKind, u32)> {
        let end = first.get() + order.frames();
        let mut nr = first.get();
        std::iter::from_fn(move || {
            if nr >= end {
                return None;
            }
            let frame = FrameNr::new(nr);
            let (kind, order) = self.0.pool().meta(frame).kind();
            let len = order.frames().min(end - nr);
            nr += len;
            Some((frame, kind, len))
        })
    }

    /// Takes the marks off the pages in a place; whether there were any.
    fn take_marks(self, first: FrameNr, order: Order) -> bool {
        let mut were_any = false;
        for (frame, kind, _) in self.heads(first, order) {
            if kind == FrameKind::Page
                && let Some((leaf, position, slot)) = Evictor(self.0).slot_of(frame)
                && slot.is_hot()
            {
                unmark(&leaf, position, slot);
                were_any = true;
            }
        }
        were_any
    }

    /// Takes what is in the place of a block of `order` at `first`, and makes a block of it.
    fn take_place(
        self,
        first: FrameNr,
        order: Order,
        effort: Effort,
    ) -> Option<UniqueFrame<'s, S>> {
        if effort == Effort::Thorough {
            self.empty_leaves(first, order);
        }
        let mut free = self
            .0
            .pool()
            .take_free_within(first, order)
            .into_iter()
            .peekable();
        let mut parts: Vec<UniqueFrame<'s, S>> = Vec::new();
        let end = first.get() + order.frames();
        let mut nr = first.get();
        while nr < end {
            let part = free
                .next_if(|part| part.frame().get() == nr)
                .or_else(|| Evictor(self.0).try_evict(FrameNr::new(nr), effort.marks()));
            let Some(part) = part else {
                parts.extend(free);
                self.0.pool().free_to_nodes(parts);
                return None;
            };
            nr += part.order().frames();
            parts.push(part);
        }
        self.0.pool().join(parts, order)
    }

    /// Whether the leaves in use in a place can be emptied: all their pages can be evicted.
    fn could_empty_leaves(self, first: FrameNr, order: Order) -> bool {
        self.used_leaves(first, order).all(|leaf| {
            let mut nr_pages = 0;
            let can_go = (0..FRAME_WORDS).all(|position| match state_of(&leaf, position) {
                State::Empty => true,
                State::Present(page) => {
                    nr_pages += 1;
                    let record = self.0.pool().meta(page);
                    record.count() == 1 && PageState::of(record).may_go()
                }
                State::Busy => false,
            });
            // The root has a reference, we have one, and so has whoever is about to change a slot.
            can_go && leaf.reference.meta().count() == nr_pages + 2
        })
    }

    /// Evicts the pages of the leaves in use in a place, as far as that can be done at once.
    fn empty_leaves(self, first: FrameNr, order: Order) {
        for leaf in self.used_leaves(first, order) {
            let pages = (0..FRAME_WORDS).filter_map(|position| match state_of(&leaf, position) {
                State::Present(page) => Evictor(self.0).try_evict(page, Marks::Ignored),
                State::Empty | State::Busy => None,
            });
            // Not to the front caches: the pages may be in the place, where they are wanted.
            self.0.pool().free_to_nodes(pages.collect());
        }
    }

    /// The leaves in a place that have more references than the root's, held.
    fn used_leaves(self, first: FrameNr, order: Order) -> impl Iterator<Item = Leaf<'s, S>> {
        self.heads(first, order)
            .filter(|(frame, kind, _)| {
                *kind == FrameKind::Leaf && self.0.pool().meta(*frame).count() > 1
            })
            .filter_map(|(frame, _, _)| match self.0.pool().try_get(frame) {
                TryGetFrame::Taken(reference) => Leaf::from_reference(reference),
                TryGetFrame::Locked | TryGetFrame::Saturated => None,
            })
    }
}

/// What a slot of a leaf says at the moment.
fn state_of<S: RefScheme>(leaf: &Leaf<'_, S>, position: usize) -> State {
    // ORDERING: Acquire; who goes on to evict the page checks its record against the slot again, and would
    // see it as it was published.
    Slot::from_bits(leaf.slot(position).load(Ordering::Acquire)).state()
}
