//! Reclaim: making frames free when there are none left.
//!
//! Policy: CLOCK (Corbató, "A paging experiment with the Multics system", 1968). A hand goes round over
//! all frames. A page that was referenced since the hand last came by loses its mark and stays; one that
//! was not is evicted. Leaves of the index whose slots are all empty go too.
//!
//! The hand goes by frame number, so the pages that it frees are often neighbours and merge into the
//! blocks that larger pages need.
//!
//! Progress and failure. One request looks at each frame a bounded number of times: two rounds with
//! respect for the marks, then rounds without. A frame may be held only for a moment (a read in
//! progress, a fill), so a request that finds nothing waits a little and tries again, [`ROUNDS`] times in
//! all, before it reports that every page is pinned. Nothing here waits for a claim.

use std::time::Duration;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, Order, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::{AtomicUsize, Ordering};

use crate::claim::Claim;
use crate::index::Leaf;
use crate::shared::{Event, Shared};
use crate::slot::{Slot, State};

/// How many times a request goes round before it gives up. With the pauses between them that is about a
/// tenth of a second in which every frame was found in use every time.
const ROUNDS: u32 = if cfg!(loom) { 2 } else { 64 };

/// How many rounds respect the marks.
const GENTLE_ROUNDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// How long a request pauses after a round that found nothing; the first few only yield.
const PAUSE: Duration = Duration::from_millis(2);

/// Every frame is in use, and stayed so while we waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfFrames;

/// Where the hand is.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    hand: AtomicUsize,
}

/// Whether the marks of referenced pages are respected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Respected,
    Ignored,
}

impl<S: RefScheme> Shared<S> {
    /// A block of `order`; pages are evicted for it if need be.
    pub(crate) fn alloc(&self, order: Order) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        match self.pool.alloc(order) {
            Some(unique) => Ok(unique),
            None => self.reclaim(order),
        }
    }

    /// A block of `order`, if it can be had without disturbing pages that were referenced lately.
    pub(crate) fn try_alloc(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        self.pool
            .alloc(order)
            .or_else(|| self.go_round(order, Marks::Respected))
    }

    #[cold]
    fn reclaim(&self, order: Order) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        for round in 0..ROUNDS {
            let marks = if round < GENTLE_ROUNDS {
                Marks::Respected
            } else {
                Marks::Ignored
            };
            if let Some(unique) = self.go_round(order, marks) {
                return Ok(unique);
            }
            // Others may have freed frames, or the front caches may hold parts of a block.
            if let Some(unique) = self.pool.alloc(order) {
                return Ok(unique);
            }
            pause(round);
        }
        Err(OutOfFrames)
    }

    /// Evicts up to `nr` pages, those without marks first; returns how many.
    pub(crate) fn evict_pages(&self, nr: usize) -> usize {
        let mut evicted = 0;
        for marks in [Marks::Respected, Marks::Respected, Marks::Ignored] {
            for _ in 0..self.pool.nr_frames() {
                if evicted == nr {
                    return evicted;
                }
                let frame = self.next_frame();
                let is_page = self.pool.meta(frame).kind().0 == FrameKind::Page;
                if self.try_evict(frame, marks).is_some() && is_page {
                    evicted += 1;
                }
            }
        }
        evicted
    }

    /// The frame that the hand points at; the hand goes on.
    fn next_frame(&self) -> FrameNr {
        // ORDERING: Relaxed; the hand only spreads the work. Two requests never get the same step of it,
        // by atomicity.
        let step = self.clock.hand.fetch_add(1, Ordering::Relaxed);
        FrameNr::new((step % self.pool.nr_frames()) as u32)
    }

    /// Moves the hand once round at the most, until a block of `order` is free.
    fn go_round(&self, order: Order, marks: Marks) -> Option<UniqueFrame<'_, S>> {
        for _ in 0..self.pool.nr_frames() {
            let Some(freed) = self.try_evict(self.next_frame(), marks) else {
                continue;
            };
            if freed.order() == order {
                return Some(freed);
            }
            // A block of another size: give it back, and see whether ours is there now.
            drop(freed);
            if let Some(unique) = self.pool.alloc(order) {
                return Some(unique);
            }
        }
        None
    }

    /// Evicts what `frame` holds, if that can be done at once.
    pub(crate) fn try_evict(&self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'_, S>> {
        // What the record says is a hint until something is held; each branch checks it.
        let record = self.pool.meta(frame);
        let (owner, index) = record.owner();
        match record.kind().0 {
            FrameKind::Page => self.try_evict_page(frame, owner, index, marks),
            FrameKind::Leaf => self.try_evict_leaf(frame),
            FrameKind::Tail | FrameKind::Free | FrameKind::Front | FrameKind::Owned => None,
        }
    }

    /// Evicts the page in `frame`, which is said to belong to slot `position` of the leaf in frame
    /// number `leaf`.
    fn try_evict_page(
        &self,
        frame: FrameNr,
        leaf: u64,
        position: u64,
        marks: Marks,
    ) -> Option<UniqueFrame<'_, S>> {
        let leaf = u32::try_from(leaf).ok()?;
        let position = usize::try_from(position).ok()?;
        if leaf as usize >= self.pool.nr_frames() || position >= pagewell_frame::FRAME_WORDS {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.pool.try_get(FrameNr::new(leaf)) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        let word = leaf.slot(position);
        // ORDERING: Acquire; the claim's compare-and-swap would do, but a slot that has changed should
        // be seen before it is tried.
        let slot = Slot::from_bits(word.load(Ordering::Acquire));
        if slot.state() != State::Present(frame) {
            return None;
        }
        if slot.is_hot() && marks == Marks::Respected {
            // ORDERING: Relaxed; the mark is a hint. If the slot changed meanwhile, the mark is not
            // ours to clear.
            let _ = word.compare_exchange(
                slot.bits(),
                slot.without_referenced().bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            return None;
        }
        let unique = Claim::try_new(self, leaf, position, slot).ok()?.evict()?;
        self.counters.add(Event::Eviction, 1);
        Some(unique)
    }

    /// Takes the leaf in `frame` out of its file's index, if none of its slots is in use.
    fn try_evict_leaf(&self, frame: FrameNr) -> Option<UniqueFrame<'_, S>> {
        // A leaf in use has more references than the root's: most are passed over without a write.
        if self.pool.meta(frame).count() > 1 {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.pool.try_get(frame) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // Held, the leaf keeps its owner; the mapping may be going away, and then takes the leaf with it.
        let (number, position) = leaf.reference.meta().owner();
        let position = usize::try_from(position).ok()?;
        let mapping = self.mapping(number)?;
        let taken = mapping.index().take_empty_leaf(self, position, leaf).ok();
        self.let_go(mapping);
        taken
    }
}

/// Lets others finish what they hold frames for.
fn pause(round: u32) {
    if cfg!(loom) {
        let mut backoff = pagewell_sync::thread::Backoff::new();
        backoff.wait();
    } else if round < 2 * GENTLE_ROUNDS + 4 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(PAUSE);
    }
}
