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
        let numa = config.validate()?;
        let nr_frames = config.nr_frames;
        let memory =
            Memory::reserve(nr_frames, config.huge_pages).map_err(|source| PoolError::Memory {
                bytes: nr_frames.saturating_mul(FRAME_BYTES),
                source,
            })?;
        let table = new_table(nr_frames)?;
        let mut nodes = Vec::with_capacity(numa.len());
        for (i, numa_node) in numa.iter().enumerate() {
            let share = |i: usize| (nr_frames as u64 * i as u64 / numa.len() as u64) as u32;
            let (first, end) = (share(i), share(i + 1));
            if let Some(numa_node) = *numa_node {
                memory
                    .bind(FrameNr::new(first), (end - first) as usize, numa_node)
                    .map_err(|source| PoolError::Bind {
                        node: numa_node,
                        source,
                    })?;
            }
            nodes.push(Node {
                first,
                end,
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
        let node = self
            .nodes
            .iter()
            .find(|node| (node.first..node.end).contains(&frame.get()));
        if let Some(node) = node {
            lock(&node.buddy).free(&self.table, frame, order);
        }
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
            .field("stats", &self.stats())
            .finish()
    }
}
