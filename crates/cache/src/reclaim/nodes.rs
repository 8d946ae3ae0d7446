//! Reclaim for who wants frames on certain nodes: memory spaces whose areas have a policy.
//!
//! Which nodes. A request for any place looks among all frames. One that prefers a node looks among its frames first, and
//! among those of the others when a round has found nothing there; one that is for a node alone looks nowhere else,
//! since what is free elsewhere is of no use to it. So what has to be evicted is evicted where it helps.
//!
//! Hands. Requests for any place share one hand over all frames; each node has another one for those that look there. A page
//! that both hands come by loses its mark to one, and is evicted by the other earlier than either alone would.
//!
//! Dirty pages are not evicted by anybody; nor does reclaim write them back, as it may run with locks in hand that a
//! program's hook takes. Who has none calls [`Shared::make_clean_at`] when it has found nothing, and asks again.
//!
//! Progress. As for any request ([`super`]): a request for a node alone ends when [`super::ROUNDS`] rounds over its frames
//! have found nothing, of which those do not count during which a transfer fills frames *of that node*. Transfers
//! to other nodes, of which there may always be some, do not keep it from ending. Where all frames have pages
//! that are dirty, or of spaces, it ends after the first rounds, since to wait is no use: pages do not become clean by that.

use std::collections::HashSet;
use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    AllocRequest, FrameKind, FrameNr, Order, Place, Reserve, TryGetFrame, UniqueFrame,
};
use pagewell_sync::atomic::AtomicUsize;

use super::{Marks, OutOfFrames, Patience};
use crate::flush::Sync;
use crate::index::Leaf;
use crate::page_state::PageState;
use crate::shared::Shared;
use crate::transfers::NodeSet;
use crate::writeback::{InHook, is_background};

/// How many frames more are evicted on a node for who can use no other: the next of its requests find them free, and need not
/// stop other threads to look into their front caches before they come here. Who only prefers a node gets no more than the
/// one: those left over would draw requests that prefer other nodes.
const MORE: usize = 15;

/// How many frames are looked at for that.
const LOOKS_FOR_MORE: usize = 4 * MORE;

/// Among which frames a lap goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    All,
    /// Those of one node.
    Node(usize),
    /// Those of all nodes but one.
    Others(usize),
}

/// Where the hands are.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Of the laps over all frames.
    hand: AtomicUsize,
    /// Of those over the frames of one node.
    of_nodes: Box<[AtomicUsize]>,
}

impl Clock {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        Self {
            hand: AtomicUsize::new(0),
            of_nodes: (0..nr_nodes).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    pub(super) fn hand(&self, among: Among) -> &AtomicUsize {
        match among {
            Among::All | Among::Others(_) => &self.hand,
            Among::Node(node) => &self.of_nodes[node],
        }
    }
}

impl<S: RefScheme> Shared<S> {
    /// As [`alloc`](Self::alloc), at `place`, which is one of the pool.
    pub(crate) fn alloc_at(
        &self,
        order: Order,
        place: Place,
    ) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        let place = self.simplest(place);
        if let Some(free) = self.alloc_free(order, place) {
            return Ok(free);
        }
        let block = self.reclaim(order, place, Patience::WhileHopeful)?;
        if let (Place::Only(node), Order::ZERO) = (place, order) {
            self.evict_more(node);
        }
        Ok(block)
    }

    /// A block at `place`, if one is free.
    pub(super) fn alloc_free(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        if place == Place::Anywhere {
            return self.pool.alloc(order);
        }
        let request = AllocRequest {
            order,
            place,
            reserve: Reserve::Keep,
        };
        self.pool.alloc_by(&request).ok()
    }

    /// The same place, said in the simplest way: where there is one node it is everywhere.
    fn simplest(&self, place: Place) -> Place {
        if self.pool.nr_nodes() == 1 {
            return Place::Anywhere;
        }
        place
    }

    /// Where the rounds of a request for `place` go: there first, and then, if there is one, there.
    pub(super) fn laps_for(place: Place) -> (Among, Option<Among>) {
        match place {
            Place::Prefer(node) => (Among::Node(node), Some(Among::Others(node))),
            Place::Only(node) => (Among::Node(node), None),
            _ => (Among::All, None),
        }
    }

    /// The nodes whose frames are of use to a request for `place`.
    pub(super) fn nodes_for(place: Place) -> NodeSet {
        match place {
            Place::Only(node) => NodeSet::only(node),
            _ => NodeSet::ALL,
        }
    }

    /// Whether there is a page at `place` that could be evicted if nobody held it, or a frame that somebody may be about to
    /// make one of, as far as can be seen.
    #[cold]
    pub(super) fn is_hopeful(&self, place: Place) -> bool {
        let withheld = self.budget.withheld();
        self.frames_at(place).map(FrameNr::new).any(|frame| {
            let record = self.pool.meta(frame);
            match record.kind().0 {
                FrameKind::Page => PageState::of(record).may_go(),
                FrameKind::Owned => withheld.binary_search(&frame).is_err(),
                _ => false,
            }
        })
    }

    /// The frames that are of use to a request for `place`.
    fn frames_at(&self, place: Place) -> Range<u32> {
        match place {
            Place::Only(node) => self.pool.frames_of(node),
            _ => 0..self.pool.nr_frames() as u32,
        }
    }

    /// Evicts a few pages of a node that were not referenced lately.
    fn evict_more(&self, node: usize) {
        let lap = self.lap(Order::ZERO, Marks::Respected, Among::Node(node));
        let evicted = lap
            .take(LOOKS_FOR_MORE)
            .filter_map(|frame| self.try_evict(frame, Marks::Respected));
        // To the node, where who is bound to it looks.
        self.pool.free_to_nodes(evicted.take(MORE).collect());
    }

    /// Makes pages clean that are in frames of `place`, for who has found nothing to evict there: all of some file's that is
    /// written back in the background, or for a block of several frames, of all those files. Whether any were made.
    ///
    /// No lock is held: it waits for the storage, and calls the program's hooks. In a hook nothing is done.
    #[cold]
    pub(crate) fn make_clean_at(&self, order: Order, place: Place) -> bool {
        if !self.is_home() || InHook::is_so() {
            return false;
        }
        let mut is_any = false;
        for number in self.unclean_files(self.simplest(place)) {
            let Some(mapping) = self.visit(number) else {
                continue;
            };
            if is_background(&mapping) {
                let before = self.unclean.nr();
                // An error is kept for the handles of the file. There may be fewer all the same, if pages are held.
                let synced = mapping.sync_unless(Sync::Data, || false);
                is_any |= synced.is_ok() || self.unclean.nr() < before;
            }
            if is_any && order == Order::ZERO {
                break;
            }
        }
        is_any
    }

    /// The numbers of the files that have pages at `place` which are not clean, as far as can be seen.
    fn unclean_files(&self, place: Place) -> HashSet<u64> {
        let leaves: HashSet<u64> = self
            .frames_at(place)
            .map(|nr| self.pool.meta(FrameNr::new(nr)))
            .filter(|record| {
                record.kind().0 == FrameKind::Page && PageState::of(*record).is_unclean()
            })
            .map(|record| record.owner().0)
            .collect();
        // What records say is a hint until the leaf is held.
        let files = leaves.into_iter().filter_map(|leaf| {
            let leaf = FrameNr::new(u32::try_from(leaf).ok()?);
            let TryGetFrame::Taken(reference) = self.pool.try_get(leaf) else {
                return None;
            };
            let leaf = Leaf::from_reference(reference)?;
            Some(leaf.reference.meta().owner().0)
        });
        files.collect()
    }
}
