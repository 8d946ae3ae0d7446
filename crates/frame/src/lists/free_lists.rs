//! The free lists of a pool: which frames are free, and freeing.
//!
//! What. A freed block goes to this thread's front cache, or to its node.
//!
//! Place. Allocations take blocks off these lists. All frees end here, with a block whose count is locked
//! and that belongs to the caller alone.
//!
//! Locks. A front cache before a node. Neither is held during any other call.

use std::mem::offset_of;
use std::ops::Range;

use pagewell_sync::atomic::{AtomicBool, Ordering};
use pagewell_sync::per_thread::Reach;
use pagewell_sync::shard::{Padded, is_apart, nr_cpus};
use pagewell_sync::{Mutex, MutexGuard, lock};

use super::buddy::Buddy;
use super::front::{Class, Front, FrontCaches, front_caches};
use super::node::{Node, fallback_order};
use crate::count::{LockBit, RefScheme};
use crate::memory::{NodePlan, PoolError};
use crate::records::{self, FrameMeta};
use crate::words::{FrameKind, FrameNr, Order};

/// The records of a pool's frames, and the lists that the free ones are on.
#[repr(C)] // The table first: who has a pool's address has that of the table's.
pub(crate) struct FreeLists<S: RefScheme> {
    pub(crate) table: Box<[FrameMeta<S>]>,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) fronts: FrontCaches,
    /// Whether anything may be in the front caches.
    has_cached: Padded<AtomicBool>,
}

// Who takes a reference, or gives one back, loads where the records are; who allocates, where the front caches are.
const _: () = {
    type L = FreeLists<LockBit>;
    let written = offset_of!(L, has_cached);
    assert!(is_apart::<L>(
        offset_of!(L, table),
        size_of::<Box<[u64]>>(),
        written
    ));
    assert!(is_apart::<L>(
        offset_of!(L, fronts),
        size_of::<FrontCaches>(),
        written
    ));
};

impl<S: RefScheme> FreeLists<S> {
    /// The lists of a pool of so many frames, all of them free, in the nodes of `plans`; `bind` has the system keep a node's
    /// frames where the plan says, and says whether it agreed.
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

    /// How many frames the pool has.
    pub(crate) fn nr_frames(&self) -> usize {
        self.table.len()
    }

    /// How many memory nodes the pool has.
    pub(crate) fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many of the nodes have their frames in the memory of a NUMA node of the machine: all or none
    /// as a rule, and none where there is only one, or the system did not allow it.
    pub(crate) fn nr_bound_nodes(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_bound).count()
    }

    /// How many blocks of `order` there would be if everything were free.
    pub(crate) fn nr_blocks(&self, order: Order) -> usize {
        let blocks = self.nodes.iter().map(|node| {
            (node.end >> order.get()).saturating_sub(node.first.div_ceil(order.frames()))
        });
        blocks.map(|nr| nr as usize).sum()
    }

    /// Whether there can be a block of `order` that begins at `first`: it would be aligned, and all of it
    /// in one node.
    pub(crate) fn may_be_block(&self, first: FrameNr, order: Order) -> bool {
        first.get().is_multiple_of(order.frames())
            && self
                .node_of(first)
                .is_some_and(|node| self.nodes[node].end - first.get() >= order.frames())
    }

    /// The number of the node that has `frame`; none if the pool has no such frame.
    #[inline]
    pub(crate) fn node_of(&self, frame: FrameNr) -> Option<usize> {
        let nr = frame.get();
        // Nodes are few, and in ascending order of their frames.
        self.nodes
            .iter()
            .position(|node| nr < node.end)
            .filter(|node| self.nodes[*node].first <= nr)
    }

    /// The numbers of the frames that a node has; none if the pool has no such node.
    #[inline]
    pub(crate) fn frames_of(&self, node: usize) -> Range<u32> {
        self.nodes
            .get(node)
            .map_or(0..0, |node| node.first..node.end)
    }

    /// The record of a frame.
    ///
    /// # Panics
    ///
    /// When the pool has no such frame.
    #[inline]
    pub(crate) fn meta(&self, frame: FrameNr) -> &FrameMeta<S> {
        records::of(&self.table, frame)
    }

    /// Names a block that was just taken off a list, and so is this thread's alone.
    #[inline]
    pub(crate) fn adopt(&self, frame: FrameNr, order: Order) {
        self.meta(frame).set_kind(FrameKind::Owned, order);
    }

    /// Notes that a front cache has something; called with it at work.
    #[inline]
    pub(crate) fn note_cached(&self) {
        // ORDERING: Relaxed, both. Owners at work and visitors are ordered by the front caches' own protocol; who
        // asks without visiting may miss a block that is being cached at that moment, as if it came before.
        if !self.has_cached.load(Ordering::Relaxed) {
            self.has_cached.store(true, Ordering::Relaxed);
        }
    }

    /// Gives everything in the front caches, and what is on its way between them, back to the nodes, where it can be
    /// merged; returns how many frames that was.
    pub(crate) fn drain(&self) -> usize {
        // When memory has run out this is asked again and again, and most of the time there is nothing; a visit
        // stops everybody.
        // ORDERING: Relaxed; see `note_cached`.
        if !self.has_cached.load(Ordering::Relaxed) {
            return 0;
        }
        self.fronts.with_all(|fronts, reach| {
            if reach == Reach::All {
                // ORDERING: Relaxed; see `note_cached`.
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

    /// Frees a block whose count is locked and which is the caller's alone.
    #[inline]
    pub(crate) fn free_locked(&self, frame: FrameNr, order: Order) {
        debug_assert!(self.meta(frame).refs.is_locked());
        let is_cached = Class::of(order).is_some_and(|class| {
            // By value: the numbers stay in registers.
            let pushed = self
                .fronts
                .with_mine(move |front| self.free_to_front(front, class, frame, order));
            pushed == Some(true)
        });
        if !is_cached {
            self.free_to_node(frame, order);
        }
    }

    /// Puts a block into a front cache; false if it does not belong there.
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

    /// Makes room in a full stack by giving half of it to its node, single frames to the depot if they fit, and puts
    /// the block into it.
    #[cold]
    #[inline(never)]
    fn spill(&self, front: &mut Front, class: Class, frame: FrameNr) -> bool {
        let nr = front.batch(class);
        if nr == 0 {
            return false;
        }
        // All of them are of the front cache's home node.
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

    /// Frees a block to its node, where it merges with what is free around it.
    pub(crate) fn free_to_node(&self, frame: FrameNr, order: Order) {
        if let Some(node) = self.node_of(frame) {
            self.free_to_buddy(&mut lock(&self.nodes[node].buddy), frame, order);
        }
    }

    /// As [`free_to_node`](Self::free_to_node), with the node's lock held.
    pub(crate) fn free_to_buddy(
        &self,
        buddy: &mut MutexGuard<'_, Buddy>,
        frame: FrameNr,
        order: Order,
    ) {
        buddy.free(&self.table, frame, order);
    }
}
