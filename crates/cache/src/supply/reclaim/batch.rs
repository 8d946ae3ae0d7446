//! Eviction in batches, in the order of the queues, so that frames are free before they are needed.
//!
//! A request that finds no free frame locally acquires the policy lock, evicts a batch of pages in
//! the order of the policy, and takes one frame. The others stay free locally for the next requests
//! of its thread. So one of many misses does the work for all, and can prefetch metadata, leaves
//! and slots of the next pages. In a small cache the batch is small, since free frames hold no
//! pages. No thread of the cache does this in advance: to wake it would take longer than a miss's
//! part of the batch.
//!
//! Failure. A batch that finds nothing to evict is empty. A request that must not wait then fails.
//! Any other request continues as under CLOCK ([`super::reclaimer`]): with frames that are free
//! anywhere, and then with passes over all frames.
//!
//! Locks. A thread that acquires the policy lock holds no short lock (`docs/LOCKING.md`), but may
//! hold a claim, a leaf-creation lock, and locks of files or spaces. The holder of the policy lock
//! skips claimed slots. Leaves are evicted after the lock is released.

use pagewell_frame::{FrameKind, FrameNr, Order, UniqueFrame};
use pagewell_policy::{Content, Ghost, Pages, Stays as KeptBack};
use pagewell_sync::lock;
use pagewell_sync::prefetch::prefetch;

use crate::supply::clock::Marks;
use crate::supply::evict::{Evictor, SeenSlot, unmark};
use crate::supply::parts::{Event, Supply};
use crate::supply::queues::{EmptyLeaves, Queues};

/// Number of frames that a batch frees at most, unless its last page has several frames.
pub(super) const MOST: usize = 32;

/// Ratio of the pool's frames to those of a batch, which are at least 1 and at most [`MOST`].
const SHARE: usize = 128;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches<'s>(pub(crate) &'s Supply);

impl<'s> Batches<'s> {
    /// Evicts a batch of pages, and returns a block of `order` from its frames, if there is one.
    #[cold]
    pub(crate) fn evict_for(self, order: Order) -> Option<UniqueFrame<'s>> {
        let nr_frames = self.0.pool().nr_frames();
        let batch = match order {
            Order::ZERO => (nr_frames / SHARE).clamp(1, MOST),
            // A single evicted page may be large enough. Smaller pages would not be contiguous.
            _ => 1,
        };
        let (mut freed, _) = self.evict(batch)?;
        let found = take_block(self.0, &mut freed, order);
        // A thread cache allocates the most recently freed frame first.
        freed.into_iter().rev().for_each(drop);
        found
    }

    /// Evicts pages until `nr` frames are free, as far as possible, and empty leaves beyond their
    /// limit. Returns the freed blocks and the number of evicted pages, or `None` under CLOCK.
    ///
    /// Then one scan of the hazard slots ends the protection of queried pages without hazards. If
    /// the batch freed nothing and the scan ended any protection, one more batch follows.
    pub(crate) fn evict(self, nr: usize) -> Option<(Vec<UniqueFrame<'s>>, usize)> {
        let evicted = self.evict_once(nr);
        let nr_unmarked = self.0.pool().look_at_announced();
        match &evicted {
            Some((freed, _)) if freed.is_empty() && nr_unmarked != 0 => self.evict_once(nr),
            _ => evicted,
        }
    }

    fn evict_once(self, nr: usize) -> Option<(Vec<UniqueFrame<'s>>, usize)> {
        let queues = self.0.queues.as_ref()?;
        let mut queues = lock(queues);
        let Queues {
            policy,
            empty_leaves,
        } = &mut *queues;
        let mut hand = Hand::new(self.0, empty_leaves, nr);
        policy.evict(nr, &self.0.claims.notes, &mut hand);
        // The leaf in `seen` may be one of those evicted below.
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

/// Removes a block of `order` from `freed`, or splits a larger one and frees the rest.
fn take_block<'s>(
    supply: &'s Supply,
    freed: &mut Vec<UniqueFrame<'s>>,
    order: Order,
) -> Option<UniqueFrame<'s>> {
    if let Some(at) = freed.iter().position(|block| block.order() == order) {
        return Some(freed.remove(at));
    }
    let at = freed.iter().position(|block| block.order() > order)?;
    supply.pool().join(vec![freed.remove(at)], order)
}

fn is_empty_leaf(supply: &Supply, frame: FrameNr) -> bool {
    let record = supply.pool().meta(frame);
    // Each page of a leaf and each handle has a reference, and so has the index root.
    record.kind().0 == FrameKind::Leaf && record.count() == 1
}

fn evict_leaf(supply: &Supply, leaf: FrameNr) -> Option<UniqueFrame<'_>> {
    let (kind, _) = supply.pool().meta(leaf).kind();
    (kind == FrameKind::Leaf)
        .then(|| Evictor(supply).try_evict(leaf, Marks::Ignored))
        .flatten()
}

struct Hand<'s, 'q> {
    supply: &'s Supply,
    seen: Option<(FrameNr, SeenSlot<'s>)>,
    empty_leaves: &'q mut EmptyLeaves,
    freed: Vec<UniqueFrame<'s>>,
}

impl<'s, 'q> Hand<'s, 'q> {
    fn new(supply: &'s Supply, empty_leaves: &'q mut EmptyLeaves, nr: usize) -> Self {
        Self {
            supply,
            seen: None,
            empty_leaves,
            freed: Vec::with_capacity(nr),
        }
    }

    fn note_if_empty(&mut self, leaf: FrameNr) {
        if is_empty_leaf(self.supply, leaf) {
            self.empty_leaves.note(leaf.get());
        }
    }
}

impl Pages for Hand<'_, '_> {
    fn content(&mut self, frame: u32) -> Content {
        let frame = FrameNr::new(frame);
        let (kind, order) = self.supply.pool().meta(frame).kind();
        match kind {
            FrameKind::Page => Content::Page(order.frames()),
            FrameKind::Free | FrameKind::Front | FrameKind::Owned => Content::Nothing,
            FrameKind::Leaf => {
                // If the leaf became empty by removals, or with another handle, it is not recorded.
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
