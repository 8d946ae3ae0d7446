//! Reclaim on certain nodes, for memory spaces whose areas have a policy.
//!
//! Nodes. A request for any place scans all frames. A request that prefers a node scans that node's
//! frames first, and those of the others if a pass has found nothing there. A request for one node
//! only scans nowhere else, since other frames are of no use to it. So pages are evicted only where
//! that helps.
//!
//! Dirty pages are never evicted. Reclaim does not write them back either, since the caller may
//! hold locks that a callback of the program acquires. If it has found nothing, a caller without
//! locks has pages cleaned there (`Cleaner::make_clean_at`), and retries.
//!
//! Progress. As for any request ([`super::reclaimer`]): a request for one node only scans the
//! frames of that node, and waits for transfers that fill frames *of that node*. Transfers to other
//! nodes, which may never cease, do not keep it from ending.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{AllocRequest, FramePool, Order, Place, UniqueFrame};

use crate::supply::census::Census;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::Among;
use crate::supply::transfers::NodeSet;

/// Allocates a free block at `place`, if there is one.
pub(crate) fn alloc_free<S: RefScheme>(
    pool: &FramePool<S>,
    order: Order,
    place: Place,
) -> Option<UniqueFrame<'_, S>> {
    if place == Place::Anywhere {
        return pool.alloc(order);
    }
    let request = AllocRequest { order, place };
    pool.alloc_by(&request).ok()
}

/// Returns the same place in its simplest form: `Anywhere` if there is only one node.
pub(crate) fn simplest<S: RefScheme>(pool: &FramePool<S>, place: Place) -> Place {
    if pool.nr_nodes() == 1 {
        return Place::Anywhere;
    }
    place
}

/// Returns the frames to scan for `place`: first these, and then the second ones, if any.
pub(super) fn laps_for(place: Place) -> (Among, Option<Among>) {
    match place {
        Place::Prefer(node) => (Among::Node(node), Some(Among::Others(node))),
        Place::Only(node) => (Among::Node(node), None),
        _ => (Among::All, None),
    }
}

/// Returns the nodes whose frames are of use to a request for `place`.
pub(super) fn nodes_for(place: Place) -> NodeSet {
    match place {
        Place::Only(node) => NodeSet::only(node),
        _ => NodeSet::ALL,
    }
}

/// Returns empty statistics for a pass over `among`.
#[cold]
pub(super) fn census_among<S: RefScheme>(supply: &Supply<S>, among: Among) -> Census {
    let pool = supply.pool();
    let all = 0..pool.nr_frames() as u32;
    let of = |frames: &Range<u32>| (frames.len(), supply.budget.nr_withheld(frames));
    let (nr_frames, nr_withheld) = match among {
        Among::All => of(&all),
        Among::Node(node) => of(&pool.frames_of(node)),
        Among::Others(node) => {
            let (all, without) = (of(&all), of(&pool.frames_of(node)));
            (all.0 - without.0, all.1.saturating_sub(without.1))
        }
    };
    Census::of(nr_frames, nr_withheld)
}

/// Returns the frames that are of use to a request for `place`.
pub(crate) fn frames_at<S: RefScheme>(pool: &FramePool<S>, place: Place) -> Range<u32> {
    match place {
        Place::Only(node) => pool.frames_of(node),
        _ => 0..pool.nr_frames() as u32,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::supply::transfers::Transfers;

    #[test]
    fn a_request_for_one_node_waits_for_no_transfer_to_another() {
        let transfers = Transfers::new(2);
        let _to_first = transfers.begin(NodeSet::only(0));
        let [first, second] = [0, 1].map(|node| nodes_for(Place::Only(node)));
        assert!(transfers.are_any(first) && !transfers.are_any(second));
        // Other nodes are of use to this request.
        assert!(transfers.are_any(nodes_for(Place::Prefer(1))));
    }
}
