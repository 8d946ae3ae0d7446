//! Reclaim of blocks: contiguous frames, for pages larger than a frame.
//!
//! If pages were evicted one by one until enough of them are contiguous, nearly all might be
//! evicted. So a request searches for a *place*, an aligned range of frames, that it can free:
//!
//! 1. Scan the places from the clock hand on. The scan changes only accessed bits, and queries
//!    frames. A place is *fit* if each frame in it is free, or contains a clean page or an empty
//!    leaf without other references. In gentle passes, no accessed bit may be set.
//! 2. Allocate the free frames of a fit place, so that no other thread allocates them.
//! 3. Evict the rest, frame by frame.
//! 4. Join all parts into one block.
//!
//! If another thread pins a page of the place or allocates a frame of it before step 3, the frames
//! evicted so far are freed directly to their node, and the request tries the next place, up to
//! [`TRIES`] places per pass.
//!
//! A leaf in use keeps its frame as long as it has pages. If no place is fit, a thorough pass frees
//! the frame of a leaf by evicting all pages of the leaf, wherever they are. On average these are
//! few: if each place contains a leaf in use, a leaf has fewer pages than a place has frames. A
//! place with a frame that the budget withholds is never fit. Such frames are few: one for every
//! few open files, one for each part of 512 leaves with a leaf in use, one for each leaf cluster in
//! use of a file open for writing, and those for bounce buffers.

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, Order, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::Ordering;

use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::claim::Leaf;
use crate::supply::census::{Census, Stays};
use crate::supply::clock::{Among, Marks};
use crate::supply::evict::{Evictor, unmark};
use crate::supply::parts::Supply;
use crate::supply::reclaim::effort::{Effort, Shortage};
use crate::supply::reclaim::nodes::census_among;

const TRIES: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// All frames are free or can be evicted at once. In a thorough pass, this includes leaves in
    /// use whose pages can all be evicted.
    Fit,
    /// May be fit once fills in it have completed. (A set-aside frame looks like one in a fill.)
    Soon,
    /// May be fit for a later pass, since its accessed bits are now clear, or with more effort.
    Harder,
    Unfit,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFinder<'s>(pub(super) &'s Supply);

impl<'s> BlockFinder<'s> {
    /// `order` is not zero.
    pub(super) fn find(
        self,
        order: Order,
        effort: Effort,
        among: Among,
    ) -> Result<UniqueFrame<'s>, Shortage> {
        let withheld = self.0.budget.withheld();
        let mut nr_tries = 0;
        let mut counted = Census::default();
        let mut nr_loose = 0;
        let (mut is_hopeful, mut may_try_harder) = (false, false);
        let mut lap = self
            .0
            .clock
            .lap(self.0.pool(), order, effort.marks(), among);
        for first in lap.by_ref() {
            let (look, loose) = self.look(first, order, effort, &withheld, &mut counted);
            nr_loose += loose as usize;
            match look {
                Look::Unfit => {}
                Look::Harder => may_try_harder = true,
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
        Err(Shortage {
            is_complete: lap.is_complete() || nr_tries == TRIES,
            block: Some((order.frames(), nr_loose)),
            is_raced: nr_tries != 0,
            until_transfers_end: is_hopeful,
            may_try_harder,
            census: Box::new(census_among(self.0, among).and(&counted)),
        })
    }

    /// Returns the usability of the place at `first`, and how many of its frames are free or
    /// evictable. A gentle pass clears accessed bits if only these prevent that the place is fit.
    fn look(
        self,
        first: FrameNr,
        order: Order,
        effort: Effort,
        withheld: &[FrameNr],
        counted: &mut Census,
    ) -> (Look, u32) {
        if !self.0.pool().may_be_block(first, order) {
            return (Look::Unfit, 0);
        }
        // Metadata may change concurrently; `take_place` detects that.
        let mut is_fit = true;
        let mut is_filling = false;
        let mut has_used_leaves = false;
        let mut nr_loose = 0;
        for (frame, stays, _, len) in self.heads(first, order) {
            // A larger block that is in use can be evicted only by way of the place with its head.
            is_fit &= frame >= first || stays == Some(Stays::Free);
            match stays {
                None | Some(Stays::Free) => {
                    nr_loose += len;
                    counted.note(Stays::Free, len);
                }
                Some(stays) => {
                    counted.note(stays, len);
                    match stays {
                        Stays::Leaf => has_used_leaves = true,
                        Stays::Held => {
                            // Query the frame, as in `Evictor::evict`.
                            self.0.pool().doubt(frame);
                            is_fit = false;
                        }
                        Stays::Owned if withheld.binary_search(&frame).is_err() => {
                            is_filling = true;
                        }
                        _ => is_fit = false,
                    }
                }
            }
        }
        let look = if !is_fit {
            Look::Unfit
        } else if has_used_leaves && effort != Effort::Thorough {
            Look::Harder
        } else if has_used_leaves && !self.could_empty_leaves(first, order) {
            Look::Unfit
        } else if effort == Effort::Gentle && self.take_marks(first, order) {
            Look::Harder
        } else if is_filling {
            Look::Soon
        } else {
            Look::Fit
        };
        (look, nr_loose)
    }

    /// Returns the blocks that overlap the place at `first`: the block's head (before the place if
    /// the block is larger), why it cannot be evicted (`None` if an eviction may succeed), its
    /// kind, and the number of its frames in the place.
    fn heads(
        self,
        first: FrameNr,
        order: Order,
    ) -> impl Iterator<Item = (FrameNr, Option<Stays>, FrameKind, u32)> {
        let end = first.get() + order.frames();
        let mut nr = first.get();
        std::iter::from_fn(move || {
            if nr >= end {
                return None;
            }
            let mut head = FrameNr::new(nr);
            let mut found = Stays::of(self.0.pool().meta(head));
            if head == first
                && found.1 == FrameKind::Tail
                && let Some(of_larger) = self.head_of_larger(first, order)
            {
                head = of_larger;
                found = Stays::of(self.0.pool().meta(head));
            }
            let (stays, kind, order) = found;
            let next = (head.get() + order.frames()).clamp(nr + 1, end);
            let len = next - nr;
            nr = next;
            Some((head, stays, kind, len))
        })
    }

    /// Returns the head of the larger block that contains the place of `order` at `first`.
    fn head_of_larger(self, first: FrameNr, order: Order) -> Option<FrameNr> {
        let orders = order.get() + 1..=Order::MAX.get();
        let mut heads = orders.map(|order| (order, FrameNr::new(first.get() >> order << order)));
        // A block of at least this order at this head contains `first`, by its alignment. A frame
        // that heads no block has order 0.
        let of_block =
            heads.find(|(order, head)| self.0.pool().meta(*head).kind().1.get() >= *order)?;
        Some(of_block.1)
    }

    /// Returns `true` if an accessed bit of a page in the place was set. Clears them.
    fn take_marks(self, first: FrameNr, order: Order) -> bool {
        let mut were_any = false;
        for (frame, _, kind, _) in self.heads(first, order) {
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

    /// Steps 2 to 4. If a frame is no longer available, frees the others and returns `None`.
    fn take_place(self, first: FrameNr, order: Order, effort: Effort) -> Option<UniqueFrame<'s>> {
        if effort == Effort::Thorough {
            self.empty_leaves(first, order);
        }
        let mut free = self
            .0
            .pool()
            .take_free_within(first, order)
            .into_iter()
            .peekable();
        let mut parts: Vec<UniqueFrame<'s>> = Vec::new();
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

    fn could_empty_leaves(self, first: FrameNr, order: Order) -> bool {
        self.used_leaves(first, order).all(|leaf| {
            let mut nr_pages = 0;
            let can_go = (0..FRAME_WORDS).all(|position| match state_of(&leaf, position) {
                State::Empty => true,
                State::Present(page) => {
                    nr_pages += 1;
                    let record = self.0.pool().meta(page);
                    if record.is_marked() {
                        self.0.pool().doubt(page);
                    }
                    record.count() == 1 && PageState::of(record).may_go()
                }
                State::Busy => false,
            });
            // The index root and this thread have a reference each, beside those of the pages. A
            // thread that is about to change a slot has one more.
            can_go && leaf.reference.meta().count() == nr_pages + 2
        })
    }

    fn empty_leaves(self, first: FrameNr, order: Order) {
        for leaf in self.used_leaves(first, order) {
            let pages = (0..FRAME_WORDS).filter_map(|position| match state_of(&leaf, position) {
                State::Present(page) => Evictor(self.0).try_evict(page, Marks::Ignored),
                State::Empty | State::Busy => None,
            });
            // Frames in this place are needed for the block, and must not get into thread caches.
            self.0.pool().free_to_nodes(pages.collect());
        }
    }

    fn used_leaves(self, first: FrameNr, order: Order) -> impl Iterator<Item = Leaf<'s>> {
        self.heads(first, order)
            .filter(|(_, stays, _, _)| *stays == Some(Stays::Leaf))
            .filter_map(|(frame, ..)| match self.0.pool().try_get(frame) {
                TryGetFrame::Taken(reference) => Leaf::from_reference(reference),
                TryGetFrame::Locked | TryGetFrame::Saturated => None,
            })
    }
}

fn state_of(leaf: &Leaf<'_>, position: usize) -> State {
    // ORDERING: Acquire; pairs with the release store that published the slot: a thread that then
    // evicts the page sees its metadata as published.
    Slot::from_bits(leaf.slot(position).load(Ordering::Acquire)).state()
}
