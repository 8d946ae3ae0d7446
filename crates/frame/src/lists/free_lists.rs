//! The free lists of a pool, to which all freed blocks return.
//!
//! Locks: a thread cache is entered before a node is locked, never after. No other lock is acquired
//! while one of the two is held.

use std::mem::offset_of;
use std::ops::Range;

use pagewell_sync::atomic::{AtomicBool, Ordering};
use pagewell_sync::per_thread::Reach;
use pagewell_sync::shard::{Padded, is_apart, nr_cpus};
use pagewell_sync::{Mutex, MutexGuard, lock};

use super::buddy::Buddy;
use super::front::{Class, Front, FrontCaches, front_caches};
use crate::memory::{NodePlan, PoolError, numa};
use crate::records::{self, FrameMeta};
use crate::words::{FrameKind, FrameNr, Order};

#[repr(C)] // Keeps `table` at the pool's address.
pub(crate) struct FreeLists {
    pub(crate) table: Box<[FrameMeta]>,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) fronts: FrontCaches,
    /// Set if the thread caches or transfer caches may contain blocks.
    has_cached: Padded<AtomicBool>,
}

// Other threads write `has_cached`, so `table`, which drops of references load, and `fronts`, which
// allocations load, may not share a line with it.
const _: () = {
    type L = FreeLists;
    let written = offset_of!(L, has_cached);
    let (table, fronts) = (offset_of!(L, table), offset_of!(L, fronts));
    assert!(is_apart::<L>(table, size_of::<Box<[u64]>>(), written));
    assert!(is_apart::<L>(fronts, size_of::<FrontCaches>(), written));
};

impl FreeLists {
    /// Creates the lists. `bind` requests the placement of a node, and returns `true` on success.
    pub(crate) fn new(
        nr_frames: usize,
        plans: Vec<NodePlan>,
        bind: impl Fn(&NodePlan) -> bool,
    ) -> Result<Self, PoolError> {
        let table = records::new_table(nr_frames)?;
        let numa: Vec<Option<u32>> = plans.iter().map(|plan| plan.numa).collect();
        let mut nodes = Vec::with_capacity(plans.len());
        for (number, plan) in plans.into_iter().enumerate() {
            let (first, end) = (plan.frames.start, plan.frames.end);
            nodes.push(Node {
                first,
                end,
                numa: plan.numa,
                is_bound: bind(&plan),
                fallback: fallback_order(number, &numa),
                buddy: Mutex::new(Buddy::new(&table, first, end)),
            });
        }
        let nr_cpus = nr_cpus();
        Ok(Self {
            fronts: front_caches(nr_frames, nr_cpus),
            has_cached: Padded(AtomicBool::new(false)),
            table,
            nodes: nodes.into(),
        })
    }

    pub(crate) fn nr_frames(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn may_be_block(&self, first: FrameNr, order: Order) -> bool {
        first.get().is_multiple_of(order.frames())
            && self
                .node_of(first)
                .is_some_and(|node| self.nodes[node].end - first.get() >= order.frames())
    }

    #[inline]
    pub(crate) fn node_of(&self, frame: FrameNr) -> Option<usize> {
        let nr = frame.get();
        // Nodes are few, and in ascending order of their frames.
        self.nodes
            .iter()
            .position(|node| nr < node.end)
            .filter(|node| self.nodes[*node].first <= nr)
    }

    #[inline]
    pub(crate) fn frames_of(&self, node: usize) -> Range<u32> {
        self.nodes
            .get(node)
            .map_or(0..0, |node| node.first..node.end)
    }

    #[inline]
    pub(crate) fn meta(&self, frame: FrameNr) -> &FrameMeta {
        records::of(&self.table, frame)
    }

    /// Sets the kind of a block that this thread owns to `Owned`.
    #[inline]
    pub(crate) fn adopt(&self, frame: FrameNr, order: Order) {
        self.meta(frame).set_kind(FrameKind::Owned, order);
    }

    /// Records that a cache contains a block. The caller is using its thread cache.
    #[inline]
    pub(crate) fn note_cached(&self) {
        // ORDERING: Relaxed, both; the thread caches' protocol orders owners and scanners. Other
        // threads may miss a block, as if they had loaded earlier.
        if !self.has_cached.load(Ordering::Relaxed) {
            self.has_cached.store(true, Ordering::Relaxed);
        }
    }

    /// Moves all cached blocks to the nodes, where they merge. Returns their number of frames.
    pub(crate) fn drain(&self) -> usize {
        // A scan stalls the threads that use their caches, so scan only if a cache may have blocks.
        // ORDERING: Relaxed, as in `note_cached`.
        if !self.has_cached.load(Ordering::Relaxed) {
            return 0;
        }
        self.fronts.with_all(|fronts, reach| {
            if reach == Reach::All {
                // ORDERING: Relaxed, as in `note_cached`.
                self.has_cached.store(false, Ordering::Relaxed);
            }
            let mut drained = 0;
            for front in fronts {
                for (frame, order) in front.take_all() {
                    self.free_to_node(frame, order);
                    drained += order.frames() as usize;
                }
            }
            for node in &self.nodes {
                let mut buddy = lock(&node.buddy);
                while let Some(frame) = buddy.depot.pop() {
                    self.free_to_buddy(&mut buddy, frame, Order::ZERO);
                    drained += 1;
                }
            }
            drained
        })
    }

    /// Frees a block that the caller owns and whose count is locked.
    #[inline]
    pub(crate) fn free_locked(&self, frame: FrameNr, order: Order) {
        debug_assert!(self.meta(frame).refs.is_locked());
        let is_cached = Class::of(order).is_some_and(|class| {
            // The closure captures by value, so that the numbers stay in registers.
            let pushed = self
                .fronts
                .with_mine(move |front| self.free_to_front(front, class, frame, order));
            pushed == Some(true)
        });
        if !is_cached {
            self.free_to_node(frame, order);
        }
    }

    /// Returns `false`, with the block still the caller's, if the cache cannot hold the block.
    #[inline(always)]
    pub(crate) fn free_to_front(
        &self,
        front: &mut Front,
        class: Class,
        frame: FrameNr,
        order: Order,
    ) -> bool {
        let record = self.meta(frame);
        if self.nodes.len() > 1 && self.node_of(frame) != Some(front.home) {
            return false;
        }
        record.set_kind(FrameKind::Front, order);
        let is_cached = front.push(class, frame) || self.spill(front, class, frame);
        if is_cached {
            self.note_cached();
        }
        is_cached
    }

    /// Moves half of a full stack to the node, then pushes the block. Returns `false` if the stack
    /// has no capacity.
    #[cold]
    #[inline(never)]
    fn spill(&self, front: &mut Front, class: Class, frame: FrameNr) -> bool {
        let nr = front.batch(class);
        if nr == 0 {
            return false;
        }
        // All blocks of a thread cache belong to its home node.
        let mut buddy = lock(&self.nodes[front.home].buddy);
        for oldest in front.take_oldest(class, nr) {
            let is_passed_on = class.order() == Order::ZERO && buddy.depot.push(oldest);
            if !is_passed_on {
                buddy.free(&self.table, oldest, class.order());
            }
        }
        drop(buddy);
        front.push(class, frame)
    }

    pub(crate) fn free_to_node(&self, frame: FrameNr, order: Order) {
        if let Some(node) = self.node_of(frame) {
            self.free_to_buddy(&mut lock(&self.nodes[node].buddy), frame, order);
        }
    }

    pub(crate) fn free_to_buddy(
        &self,
        buddy: &mut MutexGuard<'_, Buddy>,
        frame: FrameNr,
        order: Order,
    ) {
        buddy.free(&self.table, frame, order);
    }
}

/// Part of a pool's memory, with a buddy allocator that a lock guards.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Preferred NUMA node of the machine. `None` if the pool has one node or is not placed.
    pub(crate) numa: Option<u32>,
    /// `true` if the system has accepted the placement on that NUMA node.
    pub(crate) is_bound: bool,
    /// All nodes: this one first, then the others from the nearest to the farthest.
    pub(crate) fallback: Box<[usize]>,
    pub(crate) buddy: Mutex<Buddy>,
}

/// Returns all nodes, from `from` to the farthest one. `numa` has the NUMA node of each.
pub(super) fn fallback_order(from: usize, numa: &[Option<u32>]) -> Box<[usize]> {
    let distances = numa[from].and_then(numa::distances).unwrap_or_default();
    let distance_to = |node: u32| {
        let known = distances.iter().find(|(other, _)| *other == node);
        known.map(|(_, distance)| *distance)
    };
    let nr = numa.len();
    let mut order: Vec<usize> = (0..nr).collect();
    order.sort_by_key(|&to| {
        let distance = numa[to].and_then(distance_to);
        // At equal distances start after `from`, so that not all nodes fall back to the same one.
        (to != from, distance.unwrap_or(0), (to + nr - from) % nr)
    });
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fall_back_to_the_next_ones_where_no_distances_are_known() {
        let unbound = [None; 3];
        assert_eq!(*fallback_order(0, &unbound), [0, 1, 2]);
        assert_eq!(*fallback_order(1, &unbound), [1, 2, 0]);
        assert_eq!(*fallback_order(2, &unbound), [2, 0, 1]);
    }
}
