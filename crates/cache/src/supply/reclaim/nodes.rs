//! Reclaim on certain nodes, for memory spaces whose areas have a policy.
//!
//! Which nodes. A request for any place looks among all frames. A request that prefers a node looks among its frames first, and
//! among those of the others when a round has found nothing there. A request for a node alone looks nowhere else,
//! since frames elsewhere are of no use to it. So pages are evicted only where that helps.
//!
//! Dirty pages are never evicted. Reclaim does not write them back either, since it may run with locks in hand that a
//! program's hook takes. If it has found nothing, a caller without locks has pages made clean there (`Cleaner::make_clean_at`), and
//! asks again.
//!
//! Progress. As for any request ([`super::reclaimer`]): a request for a node alone looks at the frames of that node, and waits for
//! transfers that fill frames *of that node*. Transfers to other nodes, of which there may always be some, do not keep it
//! from ending.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{AllocRequest, FramePool, Order, Place, UniqueFrame};

use crate::supply::census::Census;
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
    let request = AllocRequest { order, place };
    pool.alloc_by(&request).ok()
}

/// The same place in its simplest form: where there is only one node it is everywhere.
pub(crate) fn simplest<S: RefScheme>(pool: &FramePool<S>, place: Place) -> Place {
    if pool.nr_nodes() == 1 {
        return Place::Anywhere;
    }
    place
}

/// Where the rounds of a request for `place` go: the first place, and then the second, if there is one.
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

/// A census of the frames that a lap goes over, before it has looked at any.
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

/// The frames that are of use to a request for `place`.
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
        // Other nodes are of use to it.
        assert!(transfers.are_any(nodes_for(Place::Prefer(1))));
    }
}
