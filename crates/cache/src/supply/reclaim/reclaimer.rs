//! Reclaim passes over the frames, until one finds what the request needs.
//!
//! Policy. A clock hand passes over all frames ([`crate::supply::clock`]), by blocks in a
//! request for a block ([`super::block`]), or over those of a certain node ([`super::nodes`]). It
//! clears set accessed bits. It evicts the other pages if they are clean and not referenced, and
//! also evicts leaves whose slots are all empty.
//!
//! Passes. A request makes passes until it has its block. The first two respect the accessed bits.
//! Concurrent requests share these passes: each step of the hand belongs to one request. Later
//! passes ignore the bits, and each scans every frame itself, before the request reports that every
//! frame is in use. (A pass for a block also ends after a few tries.)
//!
//! Progress and failure. A pass that finds nothing has counted the reasons
//! ([`crate::supply::census`]), which determine the next step:
//! 1. If the pass has skipped frames that other requests scanned, or has cleared accessed bits, or
//!    if a pass with more effort may find more, the request makes the next pass. It also does so,
//!    at most [`LOOKS_AT_MARKS`] times, if pages have lost their hazard protection since.
//! 2. If frames are being filled, the request sleeps until a transfer ends, or none has ended for
//!    0.9 s. A request for a block does so only if, in some aligned range of its size, every frame
//!    that is not being filled is free or can be evicted.
//! 3. If the obstacle may last only a few steps, the request makes a bounded number of further
//!    passes without sleeping ([`Patience`]), and then fails. Such obstacles are a frame or slot
//!    that another thread is changing, a frame allocated for a fill or a write, and referenced
//!    pages in at most 1024 frames.
//! 4. Otherwise the request fails at once: each frame contains a dirty, unsynced or pinned page,
//!    belongs to a space or to the program, is a leaf in use, or is withheld. For a block, other
//!    frames may be free, but not contiguous. The error has the numbers of the last pass.
//!
//! So if nothing can be evicted, a request detects this in one pass, or in at most three if it
//! shares the first two. (A request for a block needs four if a place contains only free frames,
//! evictable pages and leaves in use.) A pass for a frame only loads the metadata of frames that
//! cannot be evicted, so hits are not affected. No pass waits for a claim. (`docs/adr/0019-*`)

use pagewell_frame::{FrameKind, Order, Place, UniqueFrame};

use crate::supply::census::{Census, OutOfFrames};
use crate::supply::clock::{Among, Marks};
use crate::supply::evict::Evictor;
use crate::supply::parts::Supply;
use crate::supply::reclaim::batch::{self, Batches};
use crate::supply::reclaim::block::BlockFinder;
use crate::supply::reclaim::effort::{Effort, Patience, Shortage};
use crate::supply::reclaim::nodes::{alloc_free, census_among, laps_for, nodes_for};

/// Maximum number of pages and leaves that a request for a single frame on only one node evicts for
/// later requests, since each reclaim drains the other thread caches, which stops their owners. A
/// request that only prefers a node evicts none, as the free frames would attract requests for
/// other nodes.
const MORE: usize = 15;

/// Maximum number of frames that are scanned for the additional pages and leaves.
const LOOKS_FOR_MORE: usize = 4 * MORE;

/// Maximum number of passes for pages that have lost hazard protection, as it may be restored.
const LOOKS_AT_MARKS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reclaimer<'s>(pub(crate) &'s Supply);

impl<'s> Reclaimer<'s> {
    #[cold]
    pub(crate) fn reclaim(
        self,
        order: Order,
        place: Place,
    ) -> Result<UniqueFrame<'s>, OutOfFrames> {
        let (first, then) = laps_for(place);
        let mut round: u32 = 0;
        let mut patience = Patience::default();
        // Created before the last scan, to detect each transfer that ends during this scan or
        // later.
        let mut waiter = None;
        let mut nr_looks = 0;
        loop {
            let effort = Effort::of_round(round);
            let mut shortage = match self.go_round(order, effort, first) {
                Ok(unique) => return Ok(unique),
                Err(shortage) => shortage,
            };
            if let Some(then) = then {
                match self.go_round(order, effort, then) {
                    Ok(unique) => return Ok(unique),
                    Err(others) => shortage = shortage.and(&others),
                }
            }
            let may_more = self.0.pool().look_at_announced() != 0 && nr_looks < LOOKS_AT_MARKS;
            nr_looks += usize::from(may_more);
            let is_final = shortage.is_final(effort) && !may_more;
            if is_final || effort == Effort::HARDEST {
                self.0.leaf_stock.drain(&self.0.claims);
            }
            // Other threads may have freed frames, or thread caches may hold parts of a block.
            if let Some(unique) = alloc_free(self.0.pool(), order, place) {
                return Ok(unique);
            }
            round = round.saturating_add(1);
            if !is_final {
                continue;
            }
            if shortage.until_transfers_end && self.0.transfers.are_any(nodes_for(place)) {
                let goes_on = match &mut waiter {
                    None => {
                        waiter = Some(self.0.transfers.waiter(nodes_for(place)));
                        true
                    }
                    Some(waiter) => waiter.wait(),
                };
                if goes_on {
                    continue;
                }
            }
            if !(shortage.may_change() && patience.has_more(shortage.census.nr_frames())) {
                return Err(shortage.into_reason());
            }
        }
    }

    /// Makes one pass that evicts no accessed pages.
    pub(crate) fn find_unmarked(self, order: Order) -> Option<UniqueFrame<'s>> {
        self.go_round(order, Effort::Gentle, Among::All).ok()
    }

    fn go_round(
        self,
        order: Order,
        effort: Effort,
        among: Among,
    ) -> Result<UniqueFrame<'s>, Shortage> {
        if order == Order::ZERO {
            self.find_frame(effort.marks(), among)
        } else {
            BlockFinder(self.0).find(order, effort, among)
        }
    }

    fn find_frame(self, marks: Marks, among: Among) -> Result<UniqueFrame<'s>, Shortage> {
        let pool = self.0.pool();
        let mut lap = self.0.clock.lap(pool, Order::ZERO, marks, among);
        let mut counted = Census::default();
        // Rest of the block that was scanned last, which was counted at its first frame.
        let mut rest = 0..0;
        for frame in lap.by_ref() {
            if rest.contains(&frame.get()) {
                continue;
            }
            match Evictor(self.0).evict(frame, marks) {
                Ok(freed) if freed.order() == Order::ZERO => return Ok(freed),
                Ok(freed) => {
                    if let Some(first) = pool.join(vec![freed], Order::ZERO) {
                        return Ok(first);
                    }
                }
                Err((stays, order)) => {
                    counted.note(stays, order.frames());
                    rest = frame.get()..frame.get().saturating_add(order.frames());
                }
            }
        }
        Err(Shortage {
            is_complete: lap.is_complete(),
            block: None,
            is_raced: false,
            until_transfers_end: true,
            may_try_harder: counted.has_unmarked(),
            census: Box::new(census_among(self.0, among).and(&counted)),
        })
    }

    /// Evicts up to `nr` pages: in the order of the queues, and then by passes. The last pass
    /// ignores the accessed bits. Returns the number of evicted pages.
    pub(crate) fn evict_pages(self, nr: usize) -> usize {
        let mut evicted = self.evict_queued(nr);
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
            self.0.pool().look_at_announced();
        }
        evicted
    }

    fn evict_queued(self, nr: usize) -> usize {
        let mut evicted = 0;
        while evicted < nr {
            let batch = Batches(self.0).evict((nr - evicted).min(batch::MOST));
            match batch {
                Some((_, nr_pages)) if nr_pages != 0 => evicted += nr_pages,
                _ => break,
            }
        }
        evicted
    }

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
        // Freed to the node's lists, where requests for this node search.
        self.0.pool().free_to_nodes(evicted.take(MORE).collect());
    }
}
