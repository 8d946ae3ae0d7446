//! The frame pool: nodes, front caches and metadata together.
//!
//! Place. The page cache allocates every page, and every part of its index, from one pool, so that
//! the pool's size bounds all of them.
//!
//! Locks. `front shard` before `node`. Neither is held while anything else is called.
//!
//! Progress. `alloc` and the freeing `put` take a shard's lock, and a node's lock once in half a
//! shard's frames. `try_get` and a `put` that is not the last take none.

use std::fmt;

use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::{Mutex, lock};

use crate::buddy::Buddy;
use crate::front::{Front, FrontCaches};
use crate::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::kind::FrameKind;
use crate::memory::Memory;
use crate::meta::{self, FrameMeta};
use crate::refcount::{LockBit, RefScheme, TryGet};
use crate::{FRAME_BYTES, FrameNr, Order, PoolConfig, PoolError};

/// A region of the pool's memory with an allocator of its own.
#[derive(Debug)]
struct Node {
    first: u32,
    end: u32,
    /// Whether the system agreed to keep the node's frames in the memory of one NUMA node.
    is_bound: bool,
    buddy: Mutex<Buddy>,
}

/// A fixed number of page frames, in one or more memory nodes.
///
/// The type parameter is the reference counting scheme: [`LockBit`], or the baseline
/// [`CasLoop`](crate::refcount::CasLoop).
pub struct FramePool<S: RefScheme = LockBit> {
    memory: Memory,
    table: Box<[FrameMeta<S>]>,
    nodes: Box<[Node]>,
    fronts: FrontCaches,
}

/// Where a pool's frames are, at one moment. While other threads allocate and free, the numbers may
/// be of slightly different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// How many frames the pool has.
    pub nr_frames: usize,
    /// How many are free, those in front caches included.
    pub nr_free: usize,
}

impl<S: RefScheme> FramePool<S> {
    /// Reserves the memory and makes every frame free.
    ///
    /// # Errors
    ///
    /// [`PoolError`] when the configuration is out of range, or the system refuses the memory.
    pub fn new(config: &PoolConfig) -> Result<Self, PoolError> {
        let plans = config.validate()?;
        let nr_frames = config.nr_frames;
        let memory =
            Memory::reserve(nr_frames, config.huge_pages).map_err(|source| PoolError::Memory {
                bytes: nr_frames.saturating_mul(FRAME_BYTES),
                source,
            })?;
        let table = new_table(nr_frames)?;
        let mut nodes = Vec::with_capacity(plans.len());
        for plan in plans {
            let (first, end) = (plan.frames.start, plan.frames.end);
            // A refusal is no error: containers often may not place memory, and a cache whose frames
            // are somewhere in the machine is a cache all the same.
            let is_bound = plan.numa.is_some_and(|numa| {
                memory
                    .prefer(FrameNr::new(first), plan.frames.len(), numa)
                    .is_ok()
            });
            nodes.push(Node {
                first,
                end,
                is_bound,
                buddy: Mutex::new(Buddy::new(&table, first, end)),
            });
        }
        let nr_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            memory,
            fronts: FrontCaches::new(nr_frames, if cfg!(loom) { 1 } else { nr_cpus }),
            table,
            nodes: nodes.into(),
        })
    }

    /// How many frames the pool has.
    pub fn nr_frames(&self) -> usize {
        self.table.len()
    }

    /// How many memory nodes the pool has.
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many of the nodes have their frames in the memory of a NUMA node of the machine: all or none
    /// as a rule, and none where there is only one, or the system did not allow it.
    pub fn nr_bound_nodes(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_bound).count()
    }

    /// How many blocks of `order` there would be if everything were free.
    pub fn nr_blocks(&self, order: Order) -> usize {
        let blocks = self.nodes.iter().map(|node| {
            (node.end >> order.get()).saturating_sub(node.first.div_ceil(order.frames()))
        });
        blocks.map(|nr| nr as usize).sum()
    }

    /// Whether there can be a block of `order` that begins at `first`: it would be aligned, and all of it
    /// in one node.
    pub fn may_be_block(&self, first: FrameNr, order: Order) -> bool {
        first.get().is_multiple_of(order.frames())
            && self
                .node_of(first)
                .is_some_and(|node| node.end - first.get() >= order.frames())
    }

    /// The record of a frame.
    ///
    /// # Panics
    ///
    /// When the pool has no such frame.
    pub fn meta(&self, frame: FrameNr) -> &FrameMeta<S> {
        meta::of(&self.table, frame)
    }

    /// The bytes of the first `len` bytes from `frame` on.
    ///
    /// # Panics
    ///
    /// When they are not all of the pool.
    pub fn bytes(&self, frame: FrameNr, len: usize) -> RacyBytes<'_> {
        self.memory.bytes_of(frame, len)
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Allocates a block of `order`, or none when no node has one free.
    ///
    /// Its bytes are whatever was in them last.
    pub fn alloc(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        if order == Order::ZERO
            && let Some(frame) = self.alloc_front()
        {
            return Some(self.adopt(frame, order));
        }
        if let Some(frame) = self.alloc_from_nodes(order) {
            return Some(self.adopt(frame, order));
        }
        // What is free may all be in the front caches: of other threads, or as parts of a block.
        if self.drain_front_caches() == 0 {
            return None;
        }
        let frame = self.alloc_from_nodes(order)?;
        Some(self.adopt(frame, order))
    }

    /// Makes the handle of a frame that was just taken off a list, and so is this thread's alone.
    #[inline]
    fn adopt(&self, frame: FrameNr, order: Order) -> UniqueFrame<'_, S> {
        self.meta(frame).set_kind(FrameKind::Owned, order);
        UniqueFrame::new(self, frame, order)
    }

    #[inline]
    fn alloc_front(&self) -> Option<FrameNr> {
        let mut front = self.fronts.mine();
        front.pop().or_else(|| self.refill(&mut front))
    }

    /// Takes a frame from a node, and half a shard's frames for next time.
    #[cold]
    fn refill(&self, front: &mut Front) -> Option<FrameNr> {
        let batch = front.batch();
        for node in &self.nodes {
            let mut buddy = lock(&node.buddy);
            let Some(first) = buddy.alloc(&self.table, Order::ZERO) else {
                continue;
            };
            // Filled in descending order, so that they are handed out in ascending order.
            let start = front.len();
            while front.len() < start + batch && !front.is_full() {
                let Some(frame) = buddy.alloc(&self.table, Order::ZERO) else {
                    break;
                };
                self.meta(frame).set_kind(FrameKind::Front, Order::ZERO);
                front.push(frame);
            }
            front.reverse_from(start);
            return Some(first);
        }
        None
    }

    fn alloc_from_nodes(&self, order: Order) -> Option<FrameNr> {
        self.nodes
            .iter()
            .find_map(|node| lock(&node.buddy).alloc(&self.table, order))
    }

    /// Gives everything in the front caches back to the nodes, where it can be merged; returns how
    /// many frames that was.
    pub fn drain_front_caches(&self) -> usize {
        let mut drained = 0;
        for mut front in self.fronts.each() {
            let all = front.len();
            for frame in front.take_oldest(all) {
                self.free_to_node(frame, Order::ZERO);
                drained += 1;
            }
        }
        drained
    }

    /// Frees a block whose count is locked and which is the caller's alone.
    pub(crate) fn free_locked(&self, frame: FrameNr, order: Order) {
        debug_assert!(self.meta(frame).refs.is_locked());
        if order != Order::ZERO {
            self.free_to_node(frame, order);
            return;
        }
        let mut front = self.fronts.mine();
        if front.capacity() == 0 {
            drop(front);
            self.free_to_node(frame, order);
            return;
        }
        if front.is_full() {
            let batch = front.batch().max(1);
            for frame in front.take_oldest(batch) {
                self.free_to_node(frame, Order::ZERO);
            }
        }
        self.meta(frame).set_kind(FrameKind::Front, Order::ZERO);
        front.push(frame);
    }

    fn free_to_node(&self, frame: FrameNr, order: Order) {
        if let Some(node) = self.node_of(frame) {
            lock(&node.buddy).free(&self.table, frame, order);
        }
    }

    fn node_of(&self, frame: FrameNr) -> Option<&Node> {
        self.nodes
            .iter()
            .find(|node| (node.first..node.end).contains(&frame.get()))
    }

    /// Takes what is free in the block of `order` that begins at `first`, in the front caches too:
    /// its free parts, in ascending order.
    ///
    /// Whoever wants to make room for the whole block takes these first, so that nobody else allocates
    /// them meanwhile, adds what was in the rest of it, and calls [`join`](Self::join); or gives up and
    /// calls [`free_to_nodes`](Self::free_to_nodes).
    pub fn take_free_within(&self, first: FrameNr, order: Order) -> Vec<UniqueFrame<'_, S>> {
        if !self.may_be_block(first, order) {
            return Vec::new();
        }
        let range = first.get()..first.get() + order.frames();
        let is_front = |nr| self.meta(FrameNr::new(nr)).kind().0 == FrameKind::Front;
        let mut frames = Vec::new();
        // Only a hint, as the front caches are not locked: a frame that is missed stays where it is.
        if range.clone().any(is_front) {
            for mut front in self.fronts.each() {
                front.take_within(&range, &mut frames);
            }
        }
        let mut blocks: Vec<(FrameNr, Order)> = match self.node_of(first) {
            Some(node) => lock(&node.buddy).take_within(&self.table, &range),
            None => Vec::new(),
        };
        blocks.extend(frames.into_iter().map(|frame| (frame, Order::ZERO)));
        blocks.sort_unstable();
        blocks
            .into_iter()
            .map(|(frame, order)| self.adopt(frame, order))
            .collect()
    }

    /// Makes one block of `order` out of `parts`, which are to be the whole of it in ascending order,
    /// or a larger block, whose rest is freed.
    ///
    /// If they are anything else they are freed, and the answer is none.
    ///
    /// # Panics
    ///
    /// When one of the parts is of another pool.
    pub fn join<'p>(
        &'p self,
        parts: Vec<UniqueFrame<'p, S>>,
        order: Order,
    ) -> Option<UniqueFrame<'p, S>> {
        let (first, whole) = match parts.first() {
            Some(part) => (part.frame(), part.order().max(order)),
            None => return None,
        };
        let mut end = first.get();
        let is_row = parts.iter().all(|part| {
            let is_next = part.frame().get() == end;
            end += part.order().frames();
            is_next
        });
        if !is_row || !self.may_be_block(first, order) || end - first.get() != whole.frames() {
            self.free_to_nodes(parts);
            return None;
        }
        for part in parts {
            let (frame, _) = self.dissolve(part);
            // The parts are this thread's alone, and so is the block that they are.
            self.meta(frame).set_kind(FrameKind::Tail, Order::ZERO);
        }
        if whole > order
            && let Some(node) = self.node_of(first)
        {
            lock(&node.buddy).cut(&self.table, first, whole, order);
        }
        Some(self.adopt(first, order))
    }

    /// Frees blocks straight to their nodes, where they merge with what is free around them; a frame in
    /// a front cache does not.
    ///
    /// # Panics
    ///
    /// When one of the blocks is of another pool.
    pub fn free_to_nodes(&self, blocks: Vec<UniqueFrame<'_, S>>) {
        for block in blocks {
            let (frame, order) = self.dissolve(block);
            self.free_to_node(frame, order);
        }
    }

    /// Takes a handle apart; its block stays allocated, and is the caller's.
    fn dissolve(&self, block: UniqueFrame<'_, S>) -> (FrameNr, Order) {
        // Handles do not tell their pool; their memory does. (Under loom memory has no addresses.)
        #[cfg(not(loom))]
        assert_eq!(
            block.bytes().as_ptr(),
            self.bytes(block.frame(), block.order().bytes()).as_ptr(),
            "a block of another pool"
        );
        let order = block.order();
        (block.into_withheld(), order)
    }

    /// Tries to take a reference to `frame`.
    ///
    /// The frame may have been freed, and allocated anew, since the caller learnt its number: with the
    /// reference in hand the caller must check that it is still the frame that it was looking for, and
    /// else drop the reference (which may free the frame, if everybody else has dropped theirs).
    pub fn try_get(&self, frame: FrameNr) -> TryGetFrame<'_, S> {
        match self.meta(frame).refs.try_get() {
            TryGet::Taken => TryGetFrame::Taken(FrameRef::new(self, frame)),
            TryGet::Locked => TryGetFrame::Locked,
            TryGet::Saturated => TryGetFrame::Saturated,
        }
    }

    /// How many frames there are, and how many are free.
    pub fn stats(&self) -> PoolStats {
        let in_fronts: usize = self.fronts.each().map(|front| front.len()).sum();
        let in_nodes: usize = self
            .nodes
            .iter()
            .map(|node| lock(&node.buddy).nr_free())
            .sum();
        PoolStats {
            nr_frames: self.nr_frames(),
            nr_free: in_fronts + in_nodes,
        }
    }

    /// Checks every list, kind and count; returns what is wrong. For tests: the pool must be at rest.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong, and where.
    pub fn verify(&self) -> Result<(), String> {
        for node in &self.nodes {
            lock(&node.buddy).verify(&self.table)?;
        }
        for front in self.fronts.each() {
            for frame in front.iter() {
                let record = self.meta(frame);
                if record.kind() != (FrameKind::Front, Order::ZERO) || !record.refs.is_locked() {
                    return Err(format!("{frame:?} is in a front cache as {record:?}"));
                }
            }
        }
        let mut nr_used = 0;
        let mut nr = 0;
        while nr < self.nr_frames() {
            let record = &self.table[nr];
            let (kind, order) = record.kind();
            match kind {
                FrameKind::Tail => return Err(format!("frame {nr} is a tail without a head")),
                FrameKind::Free | FrameKind::Front => {}
                FrameKind::Owned | FrameKind::Page | FrameKind::Leaf => {
                    nr_used += order.frames() as usize;
                }
            }
            nr += order.frames() as usize;
        }
        let stats = self.stats();
        if stats.nr_free + nr_used != stats.nr_frames {
            return Err(format!(
                "{} free and {nr_used} used frames do not add up to {}",
                stats.nr_free, stats.nr_frames
            ));
        }
        Ok(())
    }
}

/// The records of `nr_frames` frames, all of them locked.
fn new_table<S: RefScheme>(nr_frames: usize) -> Result<Box<[FrameMeta<S>]>, PoolError> {
    let mut table = Vec::new();
    table
        .try_reserve_exact(nr_frames)
        .map_err(|_| PoolError::Memory {
            bytes: nr_frames.saturating_mul(size_of::<FrameMeta<S>>()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
    table.extend((0..nr_frames).map(|_| FrameMeta::new()));
    Ok(table.into_boxed_slice())
}

impl<S: RefScheme> fmt::Debug for FramePool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool")
            .field("scheme", &S::NAME)
            .field("nr_nodes", &self.nodes.len())
            .field("nr_bound_nodes", &self.nr_bound_nodes())
            .field("stats", &self.stats())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{HugePages, Nodes};

    fn pool(nr_frames: usize, nr_nodes: usize) -> FramePool {
        FramePool::new(&PoolConfig {
            nr_frames,
            huge_pages: HugePages::System,
            nodes: Nodes::Unbound(nr_nodes),
        })
        .unwrap()
    }

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    /// A file with pages of 64 KiB could be opened in a cache of 80 frames in eight nodes, and then no
    /// page be had: frames were counted, not blocks within nodes.
    #[test]
    fn blocks_are_counted_node_by_node() {
        assert_eq!(pool(80, 8).nr_blocks(Order::ZERO), 80);
        assert_eq!(pool(80, 8).nr_blocks(order(1)), 40);
        // 0..8, 12..20, 20..28, ..., 72..80: aligned blocks of eight are in 0..10, 10..20 and so on.
        assert_eq!(pool(80, 8).nr_blocks(order(3)), 4);
        assert_eq!(pool(80, 8).nr_blocks(order(4)), 0);
        assert_eq!(pool(80, 1).nr_blocks(order(4)), 5);
        for (nr_frames, nr_nodes) in [(80, 8), (80, 1), (131, 3)] {
            let pool = pool(nr_frames, nr_nodes);
            for k in 0..=5 {
                let starts = (0..nr_frames as u32)
                    .filter(|nr| pool.may_be_block(FrameNr::new(*nr), order(k)))
                    .count();
                assert_eq!(starts, pool.nr_blocks(order(k)));
                let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(order(k))).collect();
                assert_eq!(blocks.len(), starts, "order {k} of {pool:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_block_become_the_block() {
        let pool = pool(64, 1);
        let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
        all.sort_by_key(UniqueFrame::frame);
        let mut held = all.split_off(20);
        let rest = held.split_off(2);
        // Frames 0 to 19 are free, in front caches or in the node; 20 and 21 are held.
        drop(all);
        let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
        assert_eq!(
            parts.iter().map(|part| part.order().frames()).sum::<u32>(),
            4
        );
        parts.append(&mut held);
        // Two frames are missing: the parts are given back, and merge.
        assert!(pool.join(parts, order(3)).is_none());
        assert_eq!(pool.stats().nr_free, 22);
        pool.verify().unwrap();

        let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
        let mut rest = rest.into_iter();
        parts.extend(rest.by_ref().take(2));
        let block = pool.join(parts, order(3)).unwrap();
        assert_eq!((block.frame().get(), block.order()), (16, order(3)));
        pool.verify().unwrap();
        drop(block);
        drop(rest);
        pool.verify().unwrap();
        assert_eq!(pool.stats().nr_free, 64);
    }

    #[test]
    fn the_rest_of_a_larger_block_is_freed() {
        let pool = pool(64, 1);
        let large = pool.alloc(order(5)).unwrap();
        let first = large.frame();
        let small = pool.join(vec![large], order(1)).unwrap();
        assert_eq!((small.frame(), small.order()), (first, order(1)));
        assert_eq!(pool.stats().nr_free, 62);
        pool.verify().unwrap();
        drop(small);
        assert!(pool.alloc(order(5)).is_some());
        assert_eq!(pool.stats().nr_free, 64);
        pool.verify().unwrap();
    }

    #[test]
    fn blocks_freed_to_the_nodes_merge_at_once() {
        let pool = pool(1024, 1);
        let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
        assert_eq!(blocks.len(), 1024);
        pool.free_to_nodes(blocks);
        let node = &pool.nodes[0];
        assert!(lock(&node.buddy).alloc(&pool.table, Order::MAX).is_some());
    }

    #[test]
    #[should_panic(expected = "of another pool")]
    fn a_block_of_another_pool_is_refused() {
        let (pool, other) = (pool(16, 1), pool(16, 1));
        let block = other.alloc(Order::ZERO).unwrap();
        pool.free_to_nodes(vec![block]);
    }
}
