//! The frame pool: its memory, and the allocator of its frames.
//!
//! The operations here use frame numbers, and those in `allocate` use handles. Allocating and
//! freeing lock a node once per half stack of a thread cache. `try_get` acquires no lock.

#![allow(unsafe_code)] // `words`: stores need a safety contract.

use std::fmt;
use std::mem::offset_of;
use std::ops::Range;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::parking::WaitTable;
use pagewell_sync::scaled;
use pagewell_sync::shard::is_apart;
use pagewell_sync::shard::{Padded, nr_cpus};

use crate::announce::Announcements;
use crate::count::{RefScheme, Scheme};
use crate::lists::{FreeBlocks, FreeLists, PoolStats};
use crate::memory::{Memory, PoolConfig, PoolError};
use crate::records::FrameMeta;
use crate::words::{FRAME_BYTES, FrameNr, Order};

/// A fixed number of page frames, in one or more memory nodes. Their references are counted in the
/// scheme [`Scheme`].
#[repr(C)] // Keeps `lists` at the pool's address, so that the drop of a handle adds no offset.
pub struct FramePool {
    lists: FreeLists,
    memory: Memory,
    waits: WaitTable,
    announcements: Announcements,
    next_number: Padded<AtomicU64>,
}

// Threads write `next_number`, so `memory`, which copies load, and `waits`, which waits and
// wake-ups load, may not share a line with it.
const _: () = {
    type P = FramePool;
    let number = offset_of!(P, next_number);
    let (memory, waits) = (offset_of!(P, memory), offset_of!(P, waits));
    assert!(is_apart::<P>(memory, size_of::<Memory>(), number));
    assert!(is_apart::<P>(waits, size_of::<WaitTable>(), number));
};

impl FramePool {
    /// Reserves memory, with all frames free. Fails if `config` is out of range or memory is
    /// refused.
    pub fn new(config: &PoolConfig) -> Result<Self, PoolError> {
        let plans = config.validate()?;
        let nr_frames = config.nr_frames;
        let memory =
            Memory::reserve(nr_frames, config.huge_pages).map_err(|source| PoolError::Memory {
                bytes: nr_frames.saturating_mul(FRAME_BYTES),
                source,
            })?;
        // A refusal is not an error: many containers do not permit placement.
        let lists = FreeLists::new(nr_frames, plans, |plan| {
            let first = FrameNr::new(plan.frames.start);
            plan.numa
                .is_some_and(|numa| memory.prefer(first, plan.frames.len(), numa).is_ok())
        })?;
        Ok(Self {
            memory,
            lists,
            waits: WaitTable::new(),
            announcements: Announcements::new(nr_announcers(), Fences::new()),
            next_number: Padded(AtomicU64::new(1)),
        })
    }

    /// Returns the wait table for words in frames. All users share it: one may move another's page.
    pub fn waits(&self) -> &WaitTable {
        &self.waits
    }

    /// Returns a unique number, from 1 on, to distinguish independent users of the pool.
    pub fn next_number(&self) -> u64 {
        // ORDERING: Relaxed; the number need only be unique.
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of frames of the pool.
    pub fn nr_frames(&self) -> usize {
        self.lists().nr_frames()
    }

    /// Returns the number of memory nodes of the pool.
    pub fn nr_nodes(&self) -> usize {
        self.lists().nr_nodes()
    }

    /// Returns the number of nodes that are placed in a NUMA node's memory: usually all or none,
    /// and none if the pool has one node or the system refuses placement.
    pub fn nr_bound_nodes(&self) -> usize {
        self.lists.nodes.iter().filter(|node| node.is_bound).count()
    }

    /// Returns the number of blocks of `order` that the pool would have if all frames were free.
    pub fn nr_blocks(&self, order: Order) -> usize {
        let blocks = self.lists.nodes.iter().map(|node| {
            (node.end >> order.get()).saturating_sub(node.first.div_ceil(order.frames()))
        });
        blocks.map(|nr| nr as usize).sum()
    }

    /// Returns `true` if a block of `order` can begin at `first`: aligned, and within one node.
    pub fn may_be_block(&self, first: FrameNr, order: Order) -> bool {
        self.lists().may_be_block(first, order)
    }

    /// Returns the node that contains `frame`, or `None` if the pool has no such frame.
    #[inline]
    pub fn node_of(&self, frame: FrameNr) -> Option<usize> {
        self.lists().node_of(frame)
    }

    /// Returns the frame numbers of a node: an empty range if the pool has no such node.
    #[inline]
    pub fn frames_of(&self, node: usize) -> Range<u32> {
        self.lists().frames_of(node)
    }

    /// Returns the record of a frame. Panics if the pool has no such frame.
    #[inline]
    pub fn meta(&self, frame: FrameNr) -> &FrameMeta {
        self.lists().meta(frame)
    }

    /// Returns `len` bytes from `frame` on, read-only. The caller need not own the frames. To
    /// write, use a handle ([`UniqueFrame::bytes`](crate::UniqueFrame::bytes)). Panics if the bytes
    /// are not all in the pool.
    pub fn bytes(&self, frame: FrameNr, len: usize) -> RacySource<'_> {
        // Check `len` itself, since the end of a far too large range might overflow.
        assert!(len <= self.nr_frames() * FRAME_BYTES);
        self.memory.bytes_of(frame, len).source()
    }

    /// Returns the words of `frame`, for frames that threads share by a protocol (page tables).
    ///
    /// # Safety
    ///
    /// (W) The caller stores to the words only while its own protocol owns the frame, and only
    /// values that this protocol allows. (The frame may have been freed since the caller loaded its
    /// number.) Loads are always allowed.
    ///
    /// # Panics
    ///
    /// If the pool has no such frame.
    pub unsafe fn words(&self, frame: FrameNr) -> &[AtomicU64] {
        self.memory.words_of(frame, FRAME_BYTES)
    }

    /// Returns the numbers of frames by state.
    pub fn stats(&self) -> PoolStats {
        self.lists().stats()
    }

    /// Returns the free blocks on the lists of the nodes. Blocks in caches are not included.
    pub fn free_blocks(&self) -> FreeBlocks {
        self.lists().free_blocks()
    }

    /// Checks every list, kind and count, for tests. The caller has exclusive use of the pool.
    /// Fails at the first violation.
    pub fn verify(&self) -> Result<(), String> {
        self.lists().verify()
    }

    /// Moves all cached blocks to the nodes, where they merge. Returns the number of their frames.
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
    pub(super) fn lists(&self) -> &FreeLists {
        &self.lists
    }
}

/// Returns the number of threads that can publish hazards: those with caches, in models one more.
fn nr_announcers() -> usize {
    scaled((4 * nr_cpus()).clamp(16, 512), 3)
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool")
            .field("scheme", &Scheme::NAME)
            .field("nr_nodes", &self.nr_nodes())
            .field("nr_bound_nodes", &self.nr_bound_nodes())
            .field("stats", &self.stats())
            .finish()
    }
}
