//! The frame pool: nodes, front caches and metadata together.
//!
//! Place. The page cache allocates every page, and every part of its index, from one pool, so that
//! the pool's size bounds all of them. What is done with a pool is in files of its own: `alloc`, `free`,
//! `range` (contiguous ranges), `blocks` (making room for a block), `poison`, `account`.
//!
//! Locks. A front cache before a `node`. Neither is held while anything else is called.
//!
//! Progress. `alloc` and the freeing `put` take a node's lock once in half a front cache's blocks.
//! `try_get` and a `put` that is not the last take none.

#![allow(unsafe_code)] // Words of frames, which it takes a duty to store to.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use pagewell_sync::Mutex;
use pagewell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::parking::WaitTable;

use crate::alloc::LowMemory;
use crate::buddy::Buddy;
use crate::front::{self, FrontCaches};
use crate::handle::{FrameRef, TryGetFrame};
use crate::memory::Memory;
use crate::meta::{self, FrameMeta};
use crate::refcount::{LockBit, RefScheme, TryGet};
use crate::{FRAME_BYTES, FrameNr, Order, PoolConfig, PoolError};

/// A region of the pool's memory with an allocator of its own.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The NUMA node of the machine that it is meant to be in, where there are several.
    pub(crate) numa: Option<u32>,
    /// Whether the system agreed to keep the node's frames there.
    is_bound: bool,
    /// All nodes, this one first, then the others from the nearest to the farthest.
    pub(crate) fallback: Box<[usize]>,
    pub(crate) buddy: Mutex<Buddy>,
}

/// A fixed number of page frames, in one or more memory nodes.
///
/// The type parameter is the reference counting scheme: [`LockBit`], or the baseline
/// [`CasLoop`](crate::refcount::CasLoop).
pub struct FramePool<S: RefScheme = LockBit> {
    memory: Memory,
    pub(crate) table: Box<[FrameMeta<S>]>,
    pub(crate) nodes: Box<[Node]>,
    pub(crate) fronts: FrontCaches,
    /// Whether anything may be in the front caches.
    pub(crate) has_cached: AtomicBool,
    /// How many frames were taken out of use.
    pub(crate) nr_leaked: AtomicUsize,
    /// How many times a frame was poisoned.
    pub(crate) poisonings: AtomicUsize,
    /// A bit for each node that fell below its low watermark, of which nobody was told yet.
    pub(crate) low_nodes: AtomicU64,
    pub(crate) low_memory: OnceLock<Box<dyn LowMemory>>,
    waits: WaitTable,
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
        let numa: Vec<Option<u32>> = plans.iter().map(|plan| plan.numa).collect();
        let mut nodes = Vec::with_capacity(plans.len());
        for (number, plan) in plans.into_iter().enumerate() {
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
                numa: plan.numa,
                is_bound,
                fallback: fallback_order(number, &numa),
                buddy: Mutex::new(Buddy::new(
                    &table,
                    first,
                    end,
                    config.watermarks.of_part(plan.frames.len(), nr_frames),
                )),
            });
        }
        let nr_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            memory,
            fronts: front::new(nr_frames, nr_cpus),
            has_cached: AtomicBool::new(false),
            table,
            nodes: nodes.into(),
            nr_leaked: AtomicUsize::new(0),
            poisonings: AtomicUsize::new(0),
            low_nodes: AtomicU64::new(0),
            low_memory: OnceLock::new(),
            waits: WaitTable::new(),
        })
    }

    /// Where users of the pool's frames wait for a word that they keep in a frame: one table for all of them, since a page of
    /// one may be moved, and its entries changed, by another.
    pub fn waits(&self) -> &WaitTable {
        &self.waits
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
                .is_some_and(|node| self.nodes[node].end - first.get() >= order.frames())
    }

    /// The number of the node that has `frame`; none if the pool has no such frame.
    #[inline]
    pub fn node_of(&self, frame: FrameNr) -> Option<usize> {
        let nr = frame.get();
        // Nodes are few, and in ascending order of their frames.
        self.nodes
            .iter()
            .position(|node| nr < node.end)
            .filter(|node| self.nodes[*node].first <= nr)
    }

    /// The numbers of the frames that a node has; none if the pool has no such node.
    #[inline]
    pub fn frames_of(&self, node: usize) -> Range<u32> {
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
    pub fn meta(&self, frame: FrameNr) -> &FrameMeta<S> {
        meta::of(&self.table, frame)
    }

    /// The first `len` bytes from `frame` on, whosever they are: to be read only. Who may write has a handle
    /// ([`UniqueFrame::bytes`](crate::UniqueFrame::bytes), [`FrameRef::raw_bytes`]).
    ///
    /// # Panics
    ///
    /// When they are not all of the pool.
    pub fn bytes(&self, frame: FrameNr, len: usize) -> RacySource<'_> {
        // By itself: the end of a length that is far too large might not fit a `usize`.
        assert!(len <= self.nr_frames() * FRAME_BYTES);
        self.memory.bytes_of(frame, len).source()
    }

    /// The words of `frame`, which others may be writing: for frames that hold words of a protocol, as tables do.
    ///
    /// # Safety
    ///
    /// (W) The caller stores to the words only what the protocol allows it to that the frame's words are of at that moment,
    /// and nothing while they are of none of its own: the frame may have been freed since its number was learnt. To load
    /// is always allowed.
    ///
    /// # Panics
    ///
    /// When the pool has no such frame.
    pub unsafe fn words(&self, frame: FrameNr) -> &[AtomicU64] {
        self.memory.words_of(frame, FRAME_BYTES)
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Tries to take a reference to `frame`.
    ///
    /// The frame may have been freed, and allocated anew, since the caller learnt its number: with the
    /// reference in hand the caller must check that it is still the frame that it was looking for, and
    /// else drop the reference (which may free the frame, if everybody else has dropped theirs).
    ///
    /// A frame that the pool does not have is never anybody's: [`TryGetFrame::Locked`].
    pub fn try_get(&self, frame: FrameNr) -> TryGetFrame<'_, S> {
        let Some(record) = self.table.get(frame.index()) else {
            return TryGetFrame::Locked;
        };
        match record.refs.try_get() {
            TryGet::Taken => TryGetFrame::Taken(FrameRef::new(self, frame)),
            TryGet::Locked => TryGetFrame::Locked,
            TryGet::Saturated => TryGetFrame::Saturated,
        }
    }
}

/// All nodes, from the nearest of node `from` to the farthest; `numa` are their NUMA nodes.
fn fallback_order(from: usize, numa: &[Option<u32>]) -> Box<[usize]> {
    let distances = numa[from]
        .and_then(crate::numa::distances)
        .unwrap_or_default();
    let distance_to = |node: u32| {
        let known = distances.iter().find(|(other, _)| *other == node);
        known.map(|(_, distance)| *distance)
    };
    let nr = numa.len();
    let mut order: Vec<usize> = (0..nr).collect();
    order.sort_by_key(|&to| {
        let distance = numa[to].and_then(distance_to);
        // Among equals the next ones, so that not all nodes fall back to the same one.
        (to != from, distance.unwrap_or(0), (to + nr - from) % nr)
    });
    order.into()
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

    #[test]
    fn a_frame_is_among_those_of_its_node() {
        let config = PoolConfig {
            nodes: crate::Nodes::Unbound(3),
            ..PoolConfig::new(100)
        };
        let pool: FramePool = FramePool::new(&config).unwrap();
        for nr in 0..100 {
            let node = pool.node_of(FrameNr::new(nr)).unwrap();
            for other in 0..4 {
                assert_eq!(pool.frames_of(other).contains(&nr), other == node);
            }
        }
    }

    #[test]
    fn nodes_fall_back_to_the_next_ones_where_no_distances_are_known() {
        let unbound = [None; 3];
        assert_eq!(*fallback_order(0, &unbound), [0, 1, 2]);
        assert_eq!(*fallback_order(1, &unbound), [1, 2, 0]);
        assert_eq!(*fallback_order(2, &unbound), [2, 0, 1]);
    }
}
