//! Reclaim: making frames free when there are none left.
//!
//! Policy: CLOCK (Corbató, "A paging experiment with the Multics system", 1968). A hand goes round over
//! all frames. A page that was referenced since the hand last came by loses its mark and stays; one that
//! was not is evicted. Leaves of the index whose slots are all empty go too. For a block of several frames
//! the hand goes by blocks instead ([`block`]). Who wants frames on certain nodes has them looked for there ([`nodes`]).
//!
//! Rounds. A request makes rounds of one look at each frame, until it has what it wants. The first
//! [`GENTLE_ROUNDS`] respect the marks, and requests at the same time share them: each step of the hand is
//! one request's. Later rounds ignore the marks, and go over every frame themselves, wherever the
//! hand of the others is: a request that reports that every frame is in use has looked at every frame.
//!
//! Progress and failure. A frame may be held only for a moment (a read in progress, a fill), so a request
//! whose round finds nothing waits a little and goes round again, until [`ROUNDS`] rounds have found
//! nothing. Rounds do not count while frames are on their way in from the storage, since those can be
//! evicted once they are there: how long that takes is the storage's matter. For a block that is so only
//! if such frames are all that is missing somewhere. Nothing here waits for a claim.

mod block;
mod nodes;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::time::Duration;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, Order, Place, TryGetFrame, UniqueFrame};
use pagewell_sync::atomic::Ordering;

use self::nodes::Among;
pub(crate) use self::nodes::Clock;
use crate::claim::Claim;
use crate::index::Leaf;
use crate::shared::{Event, Shared};
use crate::slot::{Slot, State};

/// How many rounds of a request find nothing before it gives up. The pauses between them are about a tenth
/// of a second in all; the looks at every frame add to that, some nanoseconds for each frame and round.
const ROUNDS: u32 = if cfg!(loom) { 2 } else { 64 };

/// How many rounds respect the marks.
const GENTLE_ROUNDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// After how many rounds a request for a block also takes leaves in use out of the index.
const SPARING_ROUNDS: u32 = GENTLE_ROUNDS + 1;

/// How long a request pauses after a round that found nothing; the first few only yield.
const PAUSE: Duration = Duration::from_millis(2);

/// Why no frames could be had, though they were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfFrames {
    /// Every frame is in use.
    InUse,
    /// Frames could be had, but not so many in a row.
    Fragmented {
        /// How many frames in a row were wanted.
        nr_wanted: u32,
        /// How many are free or could be evicted.
        nr_loose: usize,
    },
}

impl fmt::Display for OutOfFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => write!(f, "every frame is in use"),
            Self::Fragmented {
                nr_wanted,
                nr_loose,
            } => write!(
                f,
                "{nr_loose} frames are free or could be evicted, but nowhere {nr_wanted} in a row: \
                 what is in use lies in between"
            ),
        }
    }
}

/// What came of a round that found nothing.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    reason: OutOfFrames,
    /// Whether there will be more to find once transfers that are under way have ended.
    until_transfers_end: bool,
}

impl Shortage {
    /// What has come of both.
    fn and(self, other: Self) -> Self {
        let reason = match (self.reason, other.reason) {
            (
                OutOfFrames::Fragmented {
                    nr_wanted,
                    nr_loose,
                },
                OutOfFrames::Fragmented { nr_loose: more, .. },
            ) => OutOfFrames::Fragmented {
                nr_wanted,
                nr_loose: nr_loose + more,
            },
            (OutOfFrames::InUse, reason) | (reason, OutOfFrames::InUse) => reason,
        };
        Self {
            reason,
            until_transfers_end: self.until_transfers_end || other.until_transfers_end,
        }
    }
}

/// Whether the marks of referenced pages are respected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Respected,
    Ignored,
}

/// How long a request goes on that finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// As long as it is not sure that every frame is in use.
    Always,
    /// No longer than there are pages that could be evicted but for who holds them, or frames that may become such pages.
    WhileHopeful,
}

/// What a round does to pages and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Pages that are marked only lose their marks.
    Gentle,
    /// Marks are ignored.
    Firm,
    /// For the sake of a block, the pages of a leaf are evicted wherever they are, so that the leaf can go.
    Thorough,
}

impl Effort {
    const fn of_round(round: u32) -> Self {
        if round < GENTLE_ROUNDS {
            Self::Gentle
        } else if round < SPARING_ROUNDS {
            Self::Firm
        } else {
            Self::Thorough
        }
    }

    const fn marks(self) -> Marks {
        match self {
            Self::Gentle => Marks::Respected,
            Self::Firm | Self::Thorough => Marks::Ignored,
        }
    }
}

impl<S: RefScheme> Shared<S> {
    /// A block of `order`; pages are evicted for it if need be.
    pub(crate) fn alloc(&self, order: Order) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        match self.pool.alloc(order) {
            Some(unique) => Ok(unique),
            None => self.reclaim(order, Place::Anywhere, Patience::Always),
        }
    }

    /// A block of `order`, if it can be had without evicting pages that were referenced lately. When there
    /// is none free, pages that are passed over lose their marks, as with any round of the hand.
    pub(crate) fn try_alloc(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        self.pool
            .alloc(order)
            .or_else(|| self.go_round(order, Effort::Gentle, Among::All).ok())
    }

    #[cold]
    fn reclaim(
        &self,
        order: Order,
        place: Place,
        patience: Patience,
    ) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        let (first, then) = Self::laps_for(place);
        let mut round: u32 = 0;
        let mut nr_empty = 0;
        loop {
            let effort = Effort::of_round(round);
            if effort == Effort::Thorough {
                // Frames in stock are of use to the next leaf, or to us.
                self.drain_leaf_stock();
            }
            let mut shortage = match self.go_round(order, effort, first) {
                Ok(unique) => return Ok(unique),
                Err(shortage) => shortage,
            };
            if let Some(then) = then {
                match self.go_round(order, effort, then) {
                    Ok(unique) => return Ok(unique),
                    Err(others) => shortage = shortage.and(others),
                }
            }
            // Others may have freed frames, or the front caches may hold parts of a block.
            if let Some(unique) = self.alloc_free(order, place) {
                return Ok(unique);
            }
            let is_transferring = self.transfers.are_any(Self::nodes_for(place));
            if !(shortage.until_transfers_end && is_transferring) {
                nr_empty += 1;
            }
            let is_hopeless = patience == Patience::WhileHopeful
                && effort == Effort::Thorough
                && !is_transferring
                && !self.is_hopeful(place);
            if nr_empty == ROUNDS || is_hopeless {
                return Err(shortage.reason);
            }
            pause(round);
            round = round.saturating_add(1);
        }
    }

    fn go_round(
        &self,
        order: Order,
        effort: Effort,
        among: Among,
    ) -> Result<UniqueFrame<'_, S>, Shortage> {
        if order == Order::ZERO {
            self.find_frame(effort.marks(), among)
        } else {
            self.find_block(order, effort, among)
        }
    }

    /// Goes round until a frame was evicted.
    fn find_frame(&self, marks: Marks, among: Among) -> Result<UniqueFrame<'_, S>, Shortage> {
        self.lap(Order::ZERO, marks, among)
            .find_map(|frame| {
                let freed = self.try_evict(frame, marks)?;
                if freed.order() == Order::ZERO {
                    return Some(freed);
                }
                // The rest of a larger page is freed.
                self.pool.join(vec![freed], Order::ZERO)
            })
            .ok_or(Shortage {
                reason: OutOfFrames::InUse,
                until_transfers_end: true,
            })
    }

    /// Evicts up to `nr` pages, those without marks first; returns how many.
    pub(crate) fn evict_pages(&self, nr: usize) -> usize {
        let mut evicted = 0;
        for marks in [Marks::Respected, Marks::Respected, Marks::Ignored] {
            if evicted == nr {
                break;
            }
            for frame in self.lap(Order::ZERO, marks, Among::All) {
                let is_page = self.pool.meta(frame).kind().0 == FrameKind::Page;
                if self.try_evict(frame, marks).is_some() && is_page {
                    evicted += 1;
                }
                if evicted == nr {
                    break;
                }
            }
        }
        evicted
    }

    /// One round of the hand, by places for blocks of `order`: the first frame of each.
    ///
    /// With marks respected, a place that another request's round has just come to is skipped, as its
    /// marks were taken by that; else every place is in the round once.
    fn lap(&self, order: Order, marks: Marks, among: Among) -> impl Iterator<Item = FrameNr> {
        let len = order.frames() as usize;
        let nr_frames = self.pool.nr_frames() as u32;
        let (frames, passed_over) = match among {
            Among::All => (0..nr_frames, 0..0),
            Among::Node(node) => (self.pool.frames_of(node), 0..0),
            Among::Others(node) => (0..nr_frames, self.pool.frames_of(node)),
        };
        let hand = self.clock.hand(among);
        let first = (frames.start as usize).next_multiple_of(len);
        let nr_places = (frames.end as usize).saturating_sub(first) / len;
        let mut start = None;
        let places = (0..nr_places).map(move |i| {
            // ORDERING: Relaxed; the hand only spreads the work. Two requests never get the same step of
            // it, by atomicity.
            let step = hand.fetch_add(len, Ordering::Relaxed) / len;
            let own = *start.get_or_insert(step) + i;
            let place = match marks {
                Marks::Respected => step,
                Marks::Ignored => own,
            };
            FrameNr::new((first + place % nr_places * len) as u32)
        });
        places.filter(move |frame| !passed_over.contains(&frame.get()))
    }

    /// Evicts what `frame` holds, if that can be done at once.
    pub(crate) fn try_evict(&self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'_, S>> {
        // What the record says is a hint until something is held; each branch checks it.
        match self.pool.meta(frame).kind().0 {
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

    fn try_evict_page(&self, frame: FrameNr, marks: Marks) -> Option<UniqueFrame<'_, S>> {
        let (leaf, position, slot) = self.slot_of(frame)?;
        if slot.is_hot() && marks == Marks::Respected {
            unmark(&leaf, position, slot);
            return None;
        }
        let unique = Claim::try_new(self, leaf, position, slot).ok()?.evict()?;
        self.counters.add(Event::Eviction, 1);
        Some(unique)
    }

    /// The slot that names the page in `frame`: its leaf, where it is in it, and what it says.
    pub(crate) fn slot_of(&self, frame: FrameNr) -> Option<(Leaf<'_, S>, usize, Slot)> {
        // What the record says is a hint until the slot says the same.
        let (leaf, position) = self.pool.meta(frame).owner();
        let leaf = u32::try_from(leaf).ok()?;
        let position = usize::try_from(position).ok()?;
        if leaf as usize >= self.pool.nr_frames() || position >= FRAME_WORDS {
            return None;
        }
        let TryGetFrame::Taken(reference) = self.pool.try_get(FrameNr::new(leaf)) else {
            return None;
        };
        let leaf = Leaf::from_reference(reference)?;
        // ORDERING: Acquire; the compare-and-swap of a claim would do, but a slot that has changed should
        // be seen before it is tried.
        let slot = Slot::from_bits(leaf.slot(position).load(Ordering::Acquire));
        (slot.state() == State::Present(frame)).then_some((leaf, position, slot))
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
        let mapping = self.visit(number)?;
        mapping.index().take_empty_leaf(self, position, leaf).ok()
    }
}

/// Takes the referenced mark off a slot.
fn unmark<S: RefScheme>(leaf: &Leaf<'_, S>, position: usize, slot: Slot) {
    // ORDERING: Relaxed; the mark is a hint. If the slot changed meanwhile, the mark is not ours to clear.
    let _ = leaf.slot(position).compare_exchange(
        slot.bits(),
        slot.without_referenced().bits(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
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
