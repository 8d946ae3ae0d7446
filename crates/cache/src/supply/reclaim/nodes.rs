//! Reclaim for who wants frames on certain nodes: memory spaces whose areas have a policy.
//!
//! Which nodes. A request for any place looks among all frames. One that prefers a node looks among its frames first, and
//! among those of the others when a round has found nothing there; one that is for a node alone looks nowhere else,
//! since what is free elsewhere is of no use to it. So what has to be evicted is evicted where it helps.
//!
//! Dirty pages are not evicted by anybody; nor does reclaim write them back, as it may run with locks in hand that a
//! program's hook takes. Who has none has pages made clean there (`Cleaner::make_clean_at`) when it has found nothing, and asks again.
//!
//! Progress. As for any request ([`super::reclaimer`]): a request for a node alone ends when `ROUNDS` rounds over its frames
//! have found nothing, of which those do not count during which a transfer fills frames *of that node*. Transfers
//! to other nodes, of which there may always be some, do not keep it from ending. Where all frames have pages
//! that are dirty, or of spaces, it ends after the first rounds, since to wait is no use: pages do not become clean by that.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    AllocRequest, FrameKind, FrameNr, FramePool, Order, Place, Reserve, UniqueFrame,
};

use crate::base::page_state::PageState;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::Among;
use crate::supply::transfers::NodeSet;

/// A block at `place`, if one is free.
pub(crate) fn alloc_free<S: RefScheme>(
    pool: &FramePool<S>,
    order: Order,
    place: Place,
) -> Option<UniqueFrame<'_, S>> {
    if place == Place::Anywhere {
        return pool.alloc(order);
    }
    let request = AllocRequest {
        order,
        place,
        reserve: Reserve::Keep,
    };
    pool.alloc_by(&request).ok()
}

/// The same place, said in the simplest way: where there is one node it is everywhere.
pub(crate) fn simplest<S: RefScheme>(pool: &FramePool<S>, place: Place) -> Place {
    if pool.nr_nodes() == 1 {
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
pub(super) fn is_hopeful<S: RefScheme>(supply: &Supply<S>, place: Place) -> bool {
    let withheld = supply.budget.withheld();
    frames_at(supply.pool(), place)
        .map(FrameNr::new)
        .any(|frame| {
            let record = supply.pool().meta(frame);
            match record.kind().0 {
                FrameKind::Page => PageState::of(record).may_go(),
                FrameKind::Owned => withheld.binary_search(&frame).is_err(),
                _ => false,
            }
        })
}

/// The frames that are of use to a request for `place`.
pub(crate) fn frames_at<S: RefScheme>(pool: &FramePool<S>, place: Place) -> Range<u32> {
    match place {
        Place::Only(node) => pool.frames_of(node),
        _ => 0..pool.nr_frames() as u32,
    }
}
