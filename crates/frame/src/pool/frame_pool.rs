//! The frame pool: its memory, and the allocator of its frames.
//!
//! Place. The page cache allocates every page, and every part of its index, from one pool, so
//! the pool's size bounds all of them. Here are the operations on a pool by the numbers of frames; each call goes to its
//! room. Operations that hand out handles are in `allocate`.
//!
//! Progress. `alloc` and the freeing `put` take a node's lock once in half a front cache's blocks.
//! `try_get` and a `put` that is not the last take none.

#![allow(unsafe_code)] // Words of frames, which it takes a duty to store to.

use std::fmt;
#[cfg(not(loom))]
use std::mem::offset_of;
use std::ops::Range;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::parking::WaitTable;
#[cfg(not(loom))]
use pagewell_sync::shard::is_apart;
use pagewell_sync::shard::{Padded, nr_cpus};

use crate::alloc::Allocator;
use crate::announce::Announcements;
use crate::count::{LockBit, RefScheme};
use crate::lists::{FreeBlocks, FreeLists, PoolStats};
use crate::memory::{Memory, PoolConfig, PoolError};
use crate::records::FrameMeta;
use crate::words::{FRAME_BYTES, FrameNr, Order};

/// A fixed number of page frames, in one or more memory nodes.
///
/// The type parameter is the reference counting scheme: [`LockBit`], or the baseline
/// [`CasLoop`](crate::refcount::CasLoop).
#[repr(C)] // The allocator first: see there.
pub struct FramePool<S: RefScheme = LockBit> {
    allocator: Allocator<S>,
    memory: Memory,
    waits: WaitTable,
    announcements: Announcements,
    next_number: Padded<AtomicU64>,
}

// Who copies to or from a frame loads where the memory is, who waits or wakes where to wait.
#[cfg(not(loom))]
const _: () = {
    type P = FramePool<LockBit>;
    let number = offset_of!(P, next_number);
    assert!(is_apart::<P>(
        offset_of!(P, memory),
        size_of::<Memory>(),
        number
    ));
    assert!(is_apart::<P>(
        offset_of!(P, waits),
        size_of::<WaitTable>(),
        number
    ));
};

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
        // A refusal is no error: containers often may not place memory, and a cache whose frames
        // are somewhere in the machine is a cache all the same.
        let lists = FreeLists::new(nr_frames, plans, |plan| {
            let first = FrameNr::new(plan.frames.start);
            plan.numa
                .is_some_and(|numa| memory.prefer(first, plan.frames.len(), numa).is_ok())
        })?;
        Ok(Self {
            memory,
            allocator: Allocator::new(lists),
            waits: WaitTable::new(),
            announcements: Announcements::new(nr_announcers(), Fences::new()),
            next_number: Padded(AtomicU64::new(1)),
        })
    }

    /// Where users of the pool's frames wait for a word that they keep in a frame: one table for all of them, since a page of
    /// one may be moved, and its entries changed, by another.
    pub fn waits(&self) -> &WaitTable {
        &self.waits
    }

    /// A number that the pool gives nobody else, from 1 on: for users of the pool that do not know each other, and have to tell
    /// apart what is theirs.
    pub fn next_number(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// How many frames the pool has.
    pub fn nr_frames(&self) -> usize {
        self.lists().nr_frames()
    }

    /// How many memory nodes the pool has.
    pub fn nr_nodes(&self) -> usize {
        self.lists().nr_nodes()
    }

    /// How many of the nodes have their frames in the memory of a NUMA node of the machine: all or none
    /// as a rule, and none where there is only one, or the system did not allow it.
    pub fn nr_bound_nodes(&self) -> usize {
        self.lists().nr_bound_nodes()
    }

    /// How many blocks of `order` there would be if everything were free.
    pub fn nr_blocks(&self, order: Order) -> usize {
        self.lists().nr_blocks(order)
    }

    /// Whether there can be a block of `order` that begins at `first`: it would be aligned, and all of it
    /// in one node.
    pub fn may_be_block(&self, first: FrameNr, order: Order) -> bool {
        self.lists().may_be_block(first, order)
    }

    /// The number of the node that has `frame`; none if the pool has no such frame.
    #[inline]
    pub fn node_of(&self, frame: FrameNr) -> Option<usize> {
        self.lists().node_of(frame)
    }

    /// The numbers of the frames that a node has; none if the pool has no such node.
    #[inline]
    pub fn frames_of(&self, node: usize) -> Range<u32> {
        self.lists().frames_of(node)
    }

    /// The record of a frame.
    ///
    /// # Panics
    ///
    /// When the pool has no such frame.
    #[inline]
    pub fn meta(&self, frame: FrameNr) -> &FrameMeta<S> {
        self.lists().meta(frame)
    }

    /// The first `len` bytes from `frame` on, whosever they are: to be read only. Who may write has a handle
    /// ([`UniqueFrame::bytes`](crate::UniqueFrame::bytes), [`FrameRef::raw_bytes`](crate::FrameRef::raw_bytes)).
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

    /// How many frames there are, and where.
    pub fn stats(&self) -> PoolStats {
        self.lists().stats()
    }

    /// The free blocks of each order on the lists of the nodes; what is in front caches is not among them.
    pub fn free_blocks(&self) -> FreeBlocks {
        self.lists().free_blocks()
    }

    /// Checks every list, kind and count; returns what is wrong. For tests: the pool must be at rest.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong, and where.
    pub fn verify(&self) -> Result<(), String> {
        self.lists().verify()
    }

    /// Gives everything in the front caches, and what is on its way between them, back to the nodes, where it can be
    /// merged; returns how many frames that was.
    pub fn drain_front_caches(&self) -> usize {
        self.lists().drain()
    }

    #[inline(always)]
    pub(super) fn announcements(&self) -> &Announcements {
        &self.announcements
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline]
    pub(super) fn allocator(&self) -> &Allocator<S> {
        &self.allocator
    }

    #[inline]
    pub(super) fn lists(&self) -> &FreeLists<S> {
        &self.allocator.lists
    }
}

/// So many threads can announce references: those that have front caches.
fn nr_announcers() -> usize {
    if cfg!(loom) {
        return 3;
    }
    (4 * nr_cpus()).clamp(16, 512)
}

impl<S: RefScheme> fmt::Debug for FramePool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool")
            .field("scheme", &S::NAME)
            .field("nr_nodes", &self.nr_nodes())
            .field("nr_bound_nodes", &self.nr_bound_nodes())
            .field("stats", &self.stats())
            .finish()
    }
}
