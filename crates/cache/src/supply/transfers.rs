//! Transfers from the storage that are under way, counted for each node.
//!
//! A frame that is being filled can be evicted once its page is published. So a request that has found nothing to evict waits while
//! there are transfers to frames that it could use ([`crate::supply::reclaim`]).

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool};
use pagewell_sync::atomic::{AtomicUsize, Ordering};

/// A set of the nodes of a pool, a bit each: there are 64 at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// All nodes of any pool.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// One node.
    pub(crate) const fn only(node: usize) -> Self {
        Self(1 << node)
    }

    /// The nodes that have these frames.
    pub(crate) fn of_frames<S: RefScheme>(
        pool: &FramePool<S>,
        frames: impl Iterator<Item = FrameNr>,
    ) -> Self {
        if pool.nr_nodes() == 1 {
            return Self::only(0);
        }
        let nodes = frames.filter_map(|frame| pool.node_of(frame));
        Self(nodes.fold(0, |set, node| set | 1 << node))
    }

    const fn has(self, node: usize) -> bool {
        self.0 & 1 << node != 0
    }
}

/// How many transfers fill frames of each node.
#[derive(Debug)]
pub(crate) struct Transfers {
    of_nodes: Box<[AtomicUsize]>,
}

/// A transfer that is under way. Ends also when the backend panics.
#[derive(Debug)]
#[must_use]
pub(crate) struct Transfer<'t> {
    transfers: &'t Transfers,
    nodes: NodeSet,
}

impl Transfers {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        Self {
            of_nodes: (0..nr_nodes).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Counts a transfer to frames of `nodes` until the answer is dropped.
    pub(crate) fn begin(&self, nodes: NodeSet) -> Transfer<'_> {
        for count in self.counts(nodes) {
            // ORDERING: Relaxed, here and below; who waits for frames only wants to know whether it is worth to wait on.
            count.fetch_add(1, Ordering::Relaxed);
        }
        Transfer {
            transfers: self,
            nodes,
        }
    }

    /// Whether there are any to frames of `nodes`.
    pub(crate) fn are_any(&self, nodes: NodeSet) -> bool {
        // ORDERING: Relaxed; a hint. A transfer that has just ended is missed: then its frame was published or freed
        // meanwhile, and the next round finds it.
        self.counts(nodes)
            .any(|count| count.load(Ordering::Relaxed) != 0)
    }

    fn counts(&self, nodes: NodeSet) -> impl Iterator<Item = &AtomicUsize> {
        let counts = self.of_nodes.iter().enumerate();
        counts
            .filter(move |(node, _)| nodes.has(*node))
            .map(|(_, count)| count)
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        for count in self.transfers.counts(self.nodes) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_one_of_the_nodes_whose_frames_it_fills() {
        let transfers = Transfers::new(3);
        let first = transfers.begin(NodeSet(0b101));
        let second = transfers.begin(NodeSet::only(2));
        let are_any = |node| transfers.are_any(NodeSet::only(node));
        assert_eq!([0, 1, 2].map(are_any), [true, false, true]);
        drop(first);
        assert_eq!([0, 1, 2].map(are_any), [false, false, true]);
        assert!(transfers.are_any(NodeSet::ALL));
        drop(second);
        assert!(!transfers.are_any(NodeSet::ALL));
    }
}
