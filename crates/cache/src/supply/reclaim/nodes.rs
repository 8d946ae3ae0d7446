//! Reclaim on certain nodes, for memory spaces whose areas have a NUMA memory policy.
//!
//! A request that prefers a node scans that node's frames first, and those of the other nodes if a
//! pass has found nothing there. A request for only one node scans no other frames. So passes evict
//! only pages whose frames the request can use, except that a thorough pass for a block evicts all
//! pages of a leaf, wherever they are ([`super::block`]).
//!
//! Reclaim does not write dirty pages back, since the caller may hold locks that a callback of the
//! program acquires. A caller without locks lets flushers clean pages on the node
//! (`Cleaner::make_clean_at`), and retries.
//!
//! Progress is as in [`super::reclaimer`]. A request for only one node waits only for transfers
//! that fill frames *of that node*, so it ends even if other transfers never cease.

use std::ops::Range;

use pagewell_frame::{AllocRequest, FramePool, Order, Place, UniqueFrame};

use crate::supply::census::Census;
use crate::supply::clock::Among;
use crate::supply::parts::Supply;
use crate::supply::transfers::NodeSet;

pub(crate) fn alloc_free(pool: &FramePool, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
    if place == Place::Anywhere {
        return pool.alloc(order);
    }
    let request = AllocRequest { order, place };
    pool.alloc_by(&request).ok()
}

pub(crate) fn simplest(pool: &FramePool, place: Place) -> Place {
    if pool.nr_nodes() == 1 {
        return Place::Anywhere;
    }
    place
}

/// Returns the frames to scan first for `place`, and those to scan next.
pub(super) fn laps_for(place: Place) -> (Among, Option<Among>) {
    match place {
        Place::Prefer(node) => (Among::Node(node), Some(Among::Others(node))),
        Place::Only(node) => (Among::Node(node), None),
        _ => (Among::All, None),
    }
}

pub(super) fn nodes_for(place: Place) -> NodeSet {
    match place {
        Place::Only(node) => NodeSet::only(node),
        _ => NodeSet::ALL,
    }
}

#[cold]
pub(super) fn census_among(supply: &Supply, among: Among) -> Census {
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

pub(crate) fn frames_at(pool: &FramePool, place: Place) -> Range<u32> {
    match place {
        Place::Only(node) => pool.frames_of(node),
        _ => 0..pool.nr_frames() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::transfers::Transfers;

    #[test]
    fn a_request_for_one_node_waits_for_no_transfer_to_another() {
        let transfers = Transfers::new(2);
        let _to_first = transfers.begin(NodeSet::only(0));
        let [first, second] = [0, 1].map(|node| nodes_for(Place::Only(node)));
        assert!(transfers.are_any(first) && !transfers.are_any(second));
        assert!(transfers.are_any(nodes_for(Place::Prefer(1))));
    }
}
