//! Rounds over the frames, until one has found what was wanted.
//!
//! Policy. A hand goes round over all frames in the order of the policy ([`crate::supply::policy::clock`]). A page that was
//! referenced since the hand last came by loses its mark and stays; one that was not is evicted. Leaves whose slots are all empty go
//! too. For a block of several frames the hand goes by blocks ([`super::block`]); for a certain node it stays on that node
//! ([`super::nodes`]).
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

use std::time::Duration;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, Order, Place, UniqueFrame};

use crate::supply::evict::Evictor;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::{Among, Marks};
use crate::supply::reclaim::block::BlockFinder;
use crate::supply::reclaim::effort::{Effort, GENTLE_ROUNDS, Patience, Shortage};
use crate::supply::reclaim::nodes::{alloc_free, is_hopeful, laps_for, nodes_for};

/// How many rounds of a request find nothing before it gives up. The pauses between them are about a tenth
/// of a second in all; the looks at every frame add to that, some nanoseconds for each frame and round.
const ROUNDS: u32 = if cfg!(loom) { 2 } else { 64 };

/// How long a request pauses after a round that found nothing; the first few only yield.
const PAUSE: Duration = Duration::from_millis(2);

/// How many frames more are evicted on a node for who can use no other: the next of its requests find them free, and need not
/// stop other threads to look into their front caches before they come here. Who only prefers a node gets no more than the
/// one: those left over would draw requests that prefer other nodes.
const MORE: usize = 15;

/// How many frames are looked at for that.
const LOOKS_FOR_MORE: usize = 4 * MORE;

/// Makes frames free when there are none left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reclaimer<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<'s, S: RefScheme> Reclaimer<'s, S> {
    #[cold]
    pub(crate) fn reclaim(
        self,
        order: Order,
        place: Place,
        patience: Patience,
    ) -> Result<UniqueFrame<'s, S>, OutOfFrames> {
        let (first, then) = laps_for(place);
        let mut round: u32 = 0;
        let mut nr_empty = 0;
        loop {
            let effort = Effort::of_round(round);
            if effort == Effort::Thorough {
                // Frames in stock are of use to the next leaf, or to us.
                self.0.leaf_stock.drain(&self.0.claims);
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
            if let Some(unique) = alloc_free(self.0.pool(), order, place) {
                return Ok(unique);
            }
            let is_transferring = self.0.transfers.are_any(nodes_for(place));
            if !(shortage.until_transfers_end && is_transferring) {
                nr_empty += 1;
            }
            let is_hopeless = patience == Patience::WhileHopeful
                && effort == Effort::Thorough
                && !is_transferring
                && !is_hopeful(self.0, place);
            if nr_empty == ROUNDS || is_hopeless {
                return Err(shortage.reason);
            }
            pause(round);
            round = round.saturating_add(1);
        }
    }

    /// A block of `order`, if one round finds it without evicting pages that are marked.
    pub(crate) fn find_unmarked(self, order: Order) -> Option<UniqueFrame<'s, S>> {
        self.go_round(order, Effort::Gentle, Among::All).ok()
    }

    fn go_round(
        self,
        order: Order,
        effort: Effort,
        among: Among,
    ) -> Result<UniqueFrame<'s, S>, Shortage> {
        if order == Order::ZERO {
            self.find_frame(effort.marks(), among)
        } else {
            BlockFinder(self.0).find(order, effort, among)
        }
    }

    /// Goes round until a frame was evicted.
    fn find_frame(self, marks: Marks, among: Among) -> Result<UniqueFrame<'s, S>, Shortage> {
        self.0
            .clock
            .lap(self.0.pool(), Order::ZERO, marks, among)
            .find_map(|frame| {
                let freed = Evictor(self.0).try_evict(frame, marks)?;
                if freed.order() == Order::ZERO {
                    return Some(freed);
                }
                // The rest of a larger page is freed.
                self.0.pool().join(vec![freed], Order::ZERO)
            })
            .ok_or(Shortage {
                reason: OutOfFrames::InUse,
                until_transfers_end: true,
            })
    }

    /// Evicts up to `nr` pages, those without marks first; returns how many.
    pub(crate) fn evict_pages(self, nr: usize) -> usize {
        let mut evicted = 0;
        for marks in [Marks::Respected, Marks::Respected, Marks::Ignored] {
            if evicted == nr {
                break;
            }
            for frame in self
                .0
                .clock
                .lap(self.0.pool(), Order::ZERO, marks, Among::All)
            {
                let is_page = self.0.pool().meta(frame).kind().0 == FrameKind::Page;
                if Evictor(self.0).try_evict(frame, marks).is_some() && is_page {
                    evicted += 1;
                }
                if evicted == nr {
                    break;
                }
            }
        }
        evicted
    }

    /// Evicts a few pages of a node that were not referenced lately.
    pub(crate) fn evict_more(self, node: usize) {
        let lap = self.0.clock.lap(
            self.0.pool(),
            Order::ZERO,
            Marks::Respected,
            Among::Node(node),
        );
        let evicted = lap
            .take(LOOKS_FOR_MORE)
            .filter_map(|frame| Evictor(self.0).try_evict(frame, Marks::Respected));
        // To the node, where who is bound to it looks.
        self.0.pool().free_to_nodes(evicted.take(MORE).collect());
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
