//! Eviction in batches, as the queues say: frames are free before they are needed.
//!
//! What. A request that finds nothing free at hand takes the lock of the queues, evicts a batch of pages in the order of the policy,
//! and takes one frame. The others are at hand for its thread's next requests, which take no lock. So of many misses one has the work,
//! for all of them together, with the records, leaves and slots of the next pages on their way from memory meanwhile.
//!
//! The batch is small where the cache is: frames that are free have no pages. No thread of the cache does this work ahead of the misses:
//! waking it would cost the miss more than its part of the batch.
//!
//! Leaves. What is evicted leaves a ghost in its slot. A leaf that has nothing but ghosts stays for a while ([`EmptyLeaves`]).
//!
//! Failure. A batch that finds nothing to evict says so by being empty. The request then goes on as every request under CLOCK
//! ([`super::reclaimer`]): all free frames wherever they are, and then rounds over all frames, whose last word counts.
//!
//! Locks. The lock of the queues is taken with no lock of this room held. Its holder claims slots, which waits for nothing.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, Order, UniqueFrame};
use pagewell_policy::{Content, Ghost, Pages, Stays as KeptBack};
use pagewell_sync::lock;
use pagewell_sync::prefetch::prefetch;

use crate::supply::counters::Event;
use crate::supply::evict::{Evictor, SeenSlot, unmark};
use crate::supply::parts::Supply;
use crate::supply::policy::clock::Marks;
use crate::supply::policy::queues::{EmptyLeaves, Queues};

/// A batch has so many frames at the most.
pub(super) const MOST: usize = 32;

/// Which part of the frames a batch has at the most.
const SHARE: usize = 128;

/// Evicts batches of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<'s, S: RefScheme> Batches<'s, S> {
    /// Evicts a batch of pages, and gives a block of `order` of what has become free. None if there was nothing to evict, or no such
    /// block among it; or if the policy has no queues.
    #[cold]
    pub(crate) fn evict_for(self, order: Order) -> Option<UniqueFrame<'s, S>> {
        let nr_frames = self.0.pool().nr_frames();
        let batch = match order {
            Order::ZERO => (nr_frames / SHARE).clamp(1, MOST),
            // The next page to go, which is a block if it is as large. Smaller ones, however many, would be none: they are not
            // neighbours.
            _ => 1,
        };
        let (mut freed, _) = self.evict(batch)?;
        let found = take_block(self.0, &mut freed, order);
        // The first is to be filled first, and a front cache gives what came last.
        freed.into_iter().rev().for_each(drop);
        found
    }

    /// Evicts pages of `nr` frames, if there are as many that can go, and leaves that are not kept; none if the policy has no queues.
    /// Returns what has become free, and how many pages were evicted.
    ///
    /// Pages that are next to go, but for a mark by which pins of them may be announced, are looked at then: one look for all of
    /// them. If nothing else has become free, they are tried again.
    pub(crate) fn evict(self, nr: usize) -> Option<(Vec<UniqueFrame<'s, S>>, usize)> {
        let evicted = self.evict_once(nr);
        let nr_unmarked = self.0.pool().look_at_announced();
        match &evicted {
            Some((freed, _)) if freed.is_empty() && nr_unmarked != 0 => self.evict_once(nr),
            _ => evicted,
        }
    }

    fn evict_once(self, nr: usize) -> Option<(Vec<UniqueFrame<'s, S>>, usize)> {
        let queues = self.0.queues.as_ref()?;
        let mut queues = lock(queues);
        let Queues {
            policy,
            empty_leaves,
        } = &mut *queues;
        let mut hand = Hand::new(self.0, empty_leaves, nr);
        policy.evict(nr, &self.0.claims.notes, &mut hand);
        // Its leaf is let go of: it may be one of those that are evicted below.
        let Hand {
            mut freed, seen, ..
        } = hand;
        drop(seen);
        let nr_pages = freed.len();
        self.0.counters.add(Event::Eviction, nr_pages as u64);
        let surplus: Vec<u32> = std::iter::from_fn(|| empty_leaves.surplus()).collect();
        drop(queues);
        for leaf in surplus {
            freed.extend(evict_leaf(self.0, FrameNr::new(leaf)));
        }
        Some((freed, nr_pages))
    }
}

/// Takes a block of `order` out of `freed`: one as large as that, or part of a larger one.
fn take_block<'s, S: RefScheme>(
    supply: &'s Supply<S>,
    freed: &mut Vec<UniqueFrame<'s, S>>,
    order: Order,
) -> Option<UniqueFrame<'s, S>> {
    if let Some(at) = freed.iter().position(|block| block.order() == order) {
        return Some(freed.remove(at));
    }
    let at = freed.iter().position(|block| block.order() > order)?;
    supply.pool().join(vec![freed.remove(at)], order)
}

/// Whether the frame is a leaf without pages, as far as its record says.
fn is_empty_leaf<S: RefScheme>(supply: &Supply<S>, frame: FrameNr) -> bool {
    let record = supply.pool().meta(frame);
    // The reference is the root's.
    record.kind().0 == FrameKind::Leaf && record.count() == 1
}

/// Evicts a leaf, if it is one still, and empty still.
fn evict_leaf<S: RefScheme>(supply: &Supply<S>, leaf: FrameNr) -> Option<UniqueFrame<'_, S>> {
    let (kind, _) = supply.pool().meta(leaf).kind();
    (kind == FrameKind::Leaf)
        .then(|| Evictor(supply).try_evict(leaf, Marks::Ignored))
        .flatten()
}

/// What the policy asks of the cache, for one batch.
struct Hand<'s, 'q, S: RefScheme> {
    supply: &'s Supply<S>,
    /// The page whose mark was looked at last: its frame, and its slot.
    seen: Option<(FrameNr, SeenSlot<'s, S>)>,
    empty_leaves: &'q mut EmptyLeaves,
    freed: Vec<UniqueFrame<'s, S>>,
}

impl<'s, 'q, S: RefScheme> Hand<'s, 'q, S> {
    /// For a run that frees about `nr` frames.
    fn new(supply: &'s Supply<S>, empty_leaves: &'q mut EmptyLeaves, nr: usize) -> Self {
        Self {
            supply,
            seen: None,
            empty_leaves,
            freed: Vec::with_capacity(nr),
        }
    }

    /// Notes the leaf in a frame if it has no pages.
    fn note_if_empty(&mut self, leaf: FrameNr) {
        if is_empty_leaf(self.supply, leaf) {
            self.empty_leaves.note(leaf.get());
        }
    }
}

impl<S: RefScheme> Pages for Hand<'_, '_, S> {
    fn content(&mut self, frame: u32) -> Content {
        let frame = FrameNr::new(frame);
        let (kind, order) = self.supply.pool().meta(frame).kind();
        match kind {
            FrameKind::Page => Content::Page(order.frames()),
            // Owned: on its way in, or withheld.
            FrameKind::Free | FrameKind::Front | FrameKind::Owned => Content::Nothing,
            FrameKind::Leaf => {
                // One that became empty while somebody had hold of it, or not by an eviction.
                self.note_if_empty(frame);
                Content::Other
            }
            FrameKind::Tail | FrameKind::Anon | FrameKind::Table | FrameKind::Raw => Content::Other,
        }
    }

    fn take_mark(&mut self, frame: u32) -> bool {
        let frame = FrameNr::new(frame);
        let Some((leaf, position, slot)) = Evictor(self.supply).slot_of(frame) else {
            return false;
        };
        let is_marked = slot.is_hot();
        if is_marked {
            unmark(&leaf, position, slot);
        }
        self.seen = Some((frame, (leaf, position, slot.without_referenced())));
        is_marked
    }

    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), KeptBack> {
        let frame = FrameNr::new(frame);
        let seen = self.seen.take();
        let seen = seen.and_then(|(at, seen)| (at == frame).then_some(seen));
        let evicted = Evictor(self.supply).evict_unmarked(frame, seen, ghost);
        let (unique, leaf) = evicted.ok_or(KeptBack)?;
        self.note_if_empty(leaf);
        self.freed.push(unique);
        Ok(())
    }

    fn prefetch(&mut self, frame: u32, level: u8) {
        let pool = self.supply.pool();
        let record = pool.meta(FrameNr::new(frame));
        if level == 0 {
            prefetch(record);
            return;
        }
        // A hint, as all that the record says here: it is looked at again, and checked, when the page's turn comes.
        let (leaf, position) = record.owner();
        let Some(leaf) = u32::try_from(leaf)
            .ok()
            .filter(|leaf| (*leaf as usize) < pool.nr_frames())
        else {
            return;
        };
        let record = pool.meta(FrameNr::new(leaf));
        if level == 1 {
            prefetch(record);
        } else {
            let [slots, _] = record.private();
            let offset = (position as usize).wrapping_mul(size_of::<u64>());
            prefetch(std::ptr::without_provenance::<u64>(
                (slots as usize).wrapping_add(offset),
            ));
        }
    }
}
