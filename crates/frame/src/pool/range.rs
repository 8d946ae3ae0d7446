//! Contiguous frames as one handle, and freeing them as the largest aligned blocks.
//!
//! What. A range is a block that was split, or a part of one, so that each frame can be held by itself. It is freed in one walk:
//! each frame's reference of the range is given up. Every run of frames that are free then is cut into the largest blocks that
//! are aligned to their size, fit the rest of the run and are no larger than a page block.
//!
//! Three strategies, which differ in the treatment of a run:
//! - [`FreeRange::OneByOne`], the baseline: every frame goes through the allocator by itself, and is merged
//!   with its buddies step by step, or waits in a front cache;
//! - [`FreeRange::Chunked`]: the run's blocks are put on the free lists as they are. The words of
//!   their tails mean nothing there (I1 of `kind`), so only their first frames are written;
//! - [`FreeRange::Merged`]: the effect of splitting on each frame is undone, so each block is an allocated
//!   one again, and is freed like any other.
//!
//! # Protocol
//!
//! 1. Replace the count of each frame by the lock if it is 1: one compare-and-swap. The frame is the walk's alone then.
//! 2. If there are other references, free the run of locked frames before the frame, and put the range's reference. The last
//!    put frees the frame, be it this one.
//! 3. Free the last run.
//!
//! The walk waits only for the node's lock.
//!
//! Proved by: `tests/range.rs`, `tests/histories`, `tests/loom_pool.rs`, `range-free-reuse.litmus`, `refcount-range-free.litmus`.
//!
//! Source: Linux memory-management list, "mm/page_alloc: Optimize free_contig_range()" (January 2026).

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::bytes::RacySource;

use super::frame_pool::FramePool;
use super::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::count::RefScheme;
use crate::lists::{Class, FreeLists};
use crate::words::{FRAME_BYTES, FrameKind, FrameNr, Order, blocks_of};

/// How a contiguous range is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeRange {
    /// Each frame by itself: the baseline.
    OneByOne,
    /// As the largest aligned blocks, put on the free lists as they are.
    #[default]
    Chunked,
    /// As the largest aligned blocks, each made an allocated block again first.
    Merged,
}

/// Contiguous frames, each with a reference of its own, which are this handle's: a block that was split.
///
/// Dropping it gives all of them back; those to which others hold references are freed by the last of them.
pub struct FrameRange<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    first: FrameNr,
    nr: usize,
}

impl<'p, S: RefScheme> UniqueFrame<'p, S> {
    /// Splits the block into single frames.
    pub fn split(self) -> FrameRange<'p, S> {
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

impl<'p, S: RefScheme> FrameRange<'p, S> {
    /// The first frame.
    pub fn first(&self) -> FrameNr {
        self.first
    }

    /// How many frames there are: at least one.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.nr
    }

    /// A further reference to the frame at position `at`, e.g. for a reader of it; none if there is no such
    /// frame, or it has as many references as it can count.
    pub fn get(&self, at: usize) -> Option<FrameRef<'p, S>> {
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

    /// The bytes of all frames, which others that have references may be writing: to be read only. Who wants to write takes a
    /// reference ([`get`](Self::get), [`FrameRef::raw_bytes`]).
    pub fn bytes(&self) -> RacySource<'_> {
        self.pool.bytes(self.first, self.nr * FRAME_BYTES)
    }

    /// Cuts the range in two: this one keeps the first `at` frames. None, and nothing is changed, unless
    /// both have some.
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

    /// Gives all frames back. Returns how many are not free, because others hold references to them.
    pub fn free(self, strategy: FreeRange) -> usize {
        ManuallyDrop::new(self).give_back(strategy)
    }

    /// The protocol at the top. The handle is not used any more.
    fn give_back(&self, strategy: FreeRange) -> usize {
        let lists = self.pool.lists();
        let first = self.first.get();
        let mut run = first;
        let mut nr_held = 0;
        // A compare-and-swap waits for every load before it, and every load after it waits for it, so
        // there is as little as can be in this loop.
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

impl<S: RefScheme> Drop for FrameRange<'_, S> {
    fn drop(&mut self) {
        self.give_back(FreeRange::default());
    }
}

impl<S: RefScheme> fmt::Debug for FrameRange<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRange({:?}, {} frames)", self.first, self.nr)
    }
}

/// Puts the range's reference to a frame that others have references to; whether that frees it.
#[cold]
fn put_held<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr) -> bool {
    let record = lists.meta(frame);
    let is_last = record.refs.put().is_last();
    if is_last {
        // Not of order 0 for certain: with `LockBit` a late try may have revived the count and freed the frame, which is the head of
        // a larger block by now.
        let (_, order) = record.kind();
        lists.free_locked(frame, order);
    }
    is_last
}

/// Frees the frames `run..end`, which are locked and the caller's alone.
fn free_run<S: RefScheme>(lists: &FreeLists<S>, strategy: FreeRange, run: u32, end: u32) {
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

/// Frees a block whose frames are locked and the caller's alone; their words say anything.
fn free_chunk<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order) {
    // A page block is as good as one that was never split; smaller ones are to merge.
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

/// Makes one allocated block of single frames that are locked and the caller's alone: undoes what
/// [`UniqueFrame::split`] did to each.
fn unsplit<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order) {
    let frames = frame.index()..frame.index() + order.frames() as usize;
    for record in &lists.table[frames] {
        record.set_kind(FrameKind::Tail, Order::ZERO);
    }
    lists.adopt(frame, order);
}
