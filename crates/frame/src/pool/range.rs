//! Contiguous frames as one handle, and freeing them as the largest aligned blocks.
//!
//! A range is a split block, or part of one, with separate references to its frames. One pass over
//! the range drops its reference to each frame, and waits for no lock but the node's. A strategy
//! ([`FreeRange`]) frees consecutive frames, by default as the largest aligned blocks up to a page
//! block.
//!
//! # Protocol
//!
//! 1. If the count of a frame is 1, lock it with one compare-and-swap: the pass owns the frame.
//! 2. Otherwise free the locked frames before it, then put the range's reference to it. The last
//!    put frees the frame: this one, or that of another holder.
//! 3. Free the remaining locked frames.
//!
//! Verified by `tests/range.rs`, `tests/histories`, `tests/loom_pool.rs`,
//! `range-free-reuse.litmus`, `refcount-range-free.litmus`.
//! Source: linux-mm, "mm/page_alloc: Optimize free_contig_range()" (January 2026).

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::bytes::RacySource;

use super::frame_pool::FramePool;
use super::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::lists::{Class, FreeLists};
use crate::words::{FRAME_BYTES, FrameKind, FrameNr, Order, blocks_of};

/// Strategy for freeing a contiguous range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeRange {
    /// Frees each frame separately, to be cached or merged step by step: the baseline.
    OneByOne,
    /// Frees the largest aligned blocks, without restoring their tails (I1 of [`FrameKind`]).
    #[default]
    Chunked,
    /// Undoes the split of the largest aligned blocks (restores their tails), then frees them.
    Merged,
}

/// Contiguous frames from a split block, with a reference to each. Dropping the range frees its
/// frames; a frame with other references is freed when the last of them is dropped.
pub struct FrameRange<'p> {
    pool: &'p FramePool,
    first: FrameNr,
    nr: usize,
}

impl<'p> UniqueFrame<'p> {
    /// Splits the block into single frames.
    pub fn split(self) -> FrameRange<'p> {
        let (pool, first, order) = (self.pool(), self.frame(), self.order());
        let _ = self.into_withheld();
        let nr = order.frames() as usize;
        for record in &pool.lists().table[first.index()..first.index() + nr] {
            record.set_kind(FrameKind::Raw, Order::ZERO);
            record.refs.set(1);
        }
        FrameRange { pool, first, nr }
    }
}

impl<'p> FrameRange<'p> {
    /// Returns the number of the first frame.
    pub fn first(&self) -> FrameNr {
        self.first
    }

    /// Returns the number of frames, which is at least 1.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> usize {
        self.nr
    }

    /// Acquires a further reference to the frame at position `at`. Returns `None` if it does not
    /// exist or has the maximum number of references.
    pub fn get(&self, at: usize) -> Option<FrameRef<'p>> {
        if at >= self.nr {
            return None;
        }
        match self
            .pool
            .try_get(FrameNr::new(self.first.get() + at as u32))
        {
            TryGetFrame::Taken(reference) => Some(reference),
            TryGetFrame::Locked | TryGetFrame::Saturated => None,
        }
    }

    /// Returns the bytes of all frames, read-only. Holders of other references may be writing them.
    /// To write, acquire a reference ([`get`](Self::get), [`FrameRef::raw_bytes`]).
    pub fn bytes(&self) -> RacySource<'_> {
        self.pool.bytes(self.first, self.nr * FRAME_BYTES)
    }

    /// Splits off the frames from `at` on, or returns `None`, unchanged, if a part would be empty.
    pub fn split_off(&mut self, at: usize) -> Option<Self> {
        if at == 0 || at >= self.nr {
            return None;
        }
        let rest = Self {
            pool: self.pool,
            first: FrameNr::new(self.first.get() + at as u32),
            nr: self.nr - at,
        };
        self.nr = at;
        Some(rest)
    }

    /// Frees all frames. Returns the number of frames that other references keep allocated.
    pub fn free(self, strategy: FreeRange) -> usize {
        ManuallyDrop::new(self).give_back(strategy)
    }

    /// Implements the protocol above. The caller must not use or drop the handle afterwards.
    fn give_back(&self, strategy: FreeRange) -> usize {
        let lists = self.pool.lists();
        let first = self.first.get();
        let mut run = first;
        let mut nr_held = 0;
        // Loads of several frames do not overlap: a compare-and-swap separates them.
        for (record, nr) in lists.table[first as usize..first as usize + self.nr]
            .iter()
            .zip(first..)
        {
            if !record.refs.free_if_unique() {
                free_run(lists, strategy, run, nr);
                run = nr + 1;
                nr_held += usize::from(!put_held(lists, FrameNr::new(nr)));
            }
        }
        free_run(lists, strategy, run, first + self.nr as u32);
        nr_held
    }
}

impl Drop for FrameRange<'_> {
    fn drop(&mut self) {
        self.give_back(FreeRange::default());
    }
}

impl fmt::Debug for FrameRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRange({:?}, {} frames)", self.first, self.nr)
    }
}

/// Puts the range's reference to a frame. Returns `true` if this put freed the frame.
#[cold]
fn put_held(lists: &FreeLists, frame: FrameNr) -> bool {
    let record = lists.meta(frame);
    let is_last = record.refs.put().is_last();
    if is_last {
        // The order may be larger than 0: a late put may have freed the frame (step 3 of
        // `refcount`), which may now be the head of a larger block.
        let (_, order) = record.kind();
        lists.free_locked(frame, order);
    }
    is_last
}

/// Frees the frames `run..end`, which are locked and belong to the caller.
fn free_run(lists: &FreeLists, strategy: FreeRange, run: u32, end: u32) {
    match strategy {
        FreeRange::OneByOne => {
            for nr in run..end {
                lists.free_locked(FrameNr::new(nr), Order::ZERO);
            }
        }
        FreeRange::Chunked => {
            for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                free_chunk(lists, frame, order);
            }
        }
        FreeRange::Merged => {
            for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                unsplit(lists, frame, order);
                lists.free_locked(frame, order);
            }
        }
    }
}

/// Frees a block whose frames are locked and the caller's, with arbitrary kind words.
fn free_chunk(lists: &FreeLists, frame: FrameNr, order: Order) {
    // Cache only page blocks, as if they had never been split. Smaller blocks should merge.
    let class = Class::of(order).filter(|_| order == Order::PAGE_BLOCK);
    let is_cached = class.is_some_and(|class| {
        let pushed = lists
            .fronts
            .with_mine(|front| lists.free_to_front(front, class, frame, order));
        pushed == Some(true)
    });
    if !is_cached {
        lists.free_to_node(frame, order);
    }
}

/// Joins locked frames of the caller to an allocated block, which undoes [`UniqueFrame::split`].
fn unsplit(lists: &FreeLists, frame: FrameNr, order: Order) {
    let frames = frame.index()..frame.index() + order.frames() as usize;
    for record in &lists.table[frames] {
        record.set_kind(FrameKind::Tail, Order::ZERO);
    }
    lists.adopt(frame, order);
}
