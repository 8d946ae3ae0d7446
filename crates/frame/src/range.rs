//! Freeing contiguous ranges of frames as the largest aligned blocks.
//!
//! What. A range is what is left of blocks that were split, so that each frame could be held by itself. It
//! is freed in one walk: each frame's reference is given up (one compare-and-swap, see `raw`), and every
//! run of frames that are free then is cut into the largest blocks that are aligned to their size, fit the
//! rest of the run and are no larger than a page block.
//!
//! Three strategies, which differ in what is done with a run:
//! - [`FreeRange::OneByOne`], the baseline: every frame goes through the allocator by itself, and is merged
//!   with its buddies step by step, or waits in a front cache;
//! - [`FreeRange::Chunked`]: the run's blocks are put on the free lists as they are: what the words of
//!   their tails say means nothing there (I1 of `kind`), so nothing is written but to their first frames;
//! - [`FreeRange::Merged`]: what splitting did to each frame is undone, so that each block is an allocated
//!   one again, and that is freed like any other.
//!
//! # Protocol
//!
//! 1. Walk the range: lock each frame of which the owner's reference is the only one. Note the others.
//! 2. If a frame is not one to be freed, unlock what was locked, and say so: an error changes nothing. (A
//!    late `try_get` of a frame that is locked meanwhile fails, as if it had come while it was frozen.)
//! 3. Free the runs of frames that were locked; leak what is poisoned; give up what others hold, as in
//!    `raw`.
//!
//! Walks go upwards, so of two that meet, over the same frames, one finishes. Nothing waits for anything but
//! the node's lock.
//!
//! Source: Linux memory-management list, "mm/page_alloc: Optimize free_contig_range()" (January 2026).

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::RacySource;
use pagewell_sync::lock;

use crate::error::{FreeError, Misuse};
use crate::front::Class;
use crate::geometry::blocks_of;
use crate::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::kind::FrameKind;
use crate::meta;
use crate::raw::Dropped;
use crate::refcount::RefScheme;
use crate::{FRAME_BYTES, FrameNr, FramePool, Order};

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
        pool.split_locked(first, order);
        FrameRange {
            pool,
            first,
            nr: order.frames() as usize,
        }
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

    /// The bytes of all frames: to be read only, since frames of the range may have been freed by their numbers, and be
    /// somebody else's. Who wants to write takes a reference ([`get`](Self::get), [`FrameRef::raw_bytes`]).
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
    ///
    /// # Errors
    ///
    /// [`FreeError`], when frames of the range were freed by their numbers meanwhile. The others stay allocated
    /// then, each owned by its number.
    pub fn free(self, strategy: FreeRange) -> Result<usize, FreeError> {
        let pool = self.pool;
        let (first, nr) = self.into_raw();
        pool.free_contig_range_by(first, nr, strategy)
    }

    /// The first number, and how many frames there are; they stay allocated, each owned by its number.
    pub fn into_raw(self) -> (FrameNr, usize) {
        let this = ManuallyDrop::new(self);
        (this.first, this.nr)
    }
}

impl<S: RefScheme> Drop for FrameRange<'_, S> {
    fn drop(&mut self) {
        // What was freed by its number meanwhile is free already; the rest is given back frame by frame.
        if self.pool.free_contig_range(self.first, self.nr).is_err() {
            for at in 0..self.nr as u32 {
                let _ = self
                    .pool
                    .free(FrameNr::new(self.first.get() + at), Order::ZERO);
            }
        }
    }
}

impl<S: RefScheme> fmt::Debug for FrameRange<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRange({:?}, {} frames)", self.first, self.nr)
    }
}

/// One walk over a range.
struct Walk<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    strategy: FreeRange,
    /// What the pool's counter said before the walk began.
    poisonings: usize,
    first: u32,
    end: u32,
    /// The frames, in ascending order, that are not like most: all others of the range, as far as the walk
    /// has come, are locked by it.
    others: Vec<(FrameNr, Other)>,
}

/// What is different with a frame of the range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    /// Others hold references. Its owner's is not given up yet.
    InUse,
    /// It is locked, and poisoned.
    Poisoned,
}

impl<S: RefScheme> Walk<'_, S> {
    /// A frame that the walk has not locked.
    ///
    /// # Errors
    ///
    /// It is not one to be freed: then everything is as it was before the walk.
    #[cold]
    fn meet_unlocked(&mut self, frame: FrameNr) -> Result<(), FreeError> {
        let record = self.pool.meta(frame);
        if record.is_raw(Order::ZERO) && !record.refs.is_locked() {
            self.others.push((frame, Other::InUse));
            return Ok(());
        }
        self.undo(frame);
        let misuse = self.pool.misuse_of(frame, Order::ZERO);
        Err(FreeError::new(misuse, frame.get()))
    }

    /// A frame that the walk has locked, and that is poisoned, or somebody else's after all.
    ///
    /// # Errors
    ///
    /// The latter: then everything is as it was before the walk.
    #[cold]
    fn meet_locked(&mut self, frame: FrameNr) -> Result<(), FreeError> {
        if self.pool.meta(frame).is_raw(Order::ZERO) {
            self.others.push((frame, Other::Poisoned));
            return Ok(());
        }
        self.undo(frame);
        Err(self.pool.thaw(frame, Order::ZERO))
    }

    /// Unlocks what the walk has locked, which is everything before `end` but what is in use.
    fn undo(&self, end: FrameNr) {
        let mut in_use = self
            .others
            .iter()
            .filter(|(_, other)| *other == Other::InUse)
            .peekable();
        for nr in self.first..end.get() {
            if in_use.next_if(|(frame, _)| frame.get() == nr).is_none() {
                self.pool.meta(FrameNr::new(nr)).refs.unfreeze(1);
            }
        }
    }

    /// Frees what the walk has locked, and gives up what others hold; says how many frames they hold.
    ///
    /// # Errors
    ///
    /// Another thread has given up some of the frames meanwhile.
    fn finish(self) -> Result<usize, FreeError> {
        let mut run = self.first;
        let mut nr_held = 0;
        let mut nr_failed = 0;
        let mut first_error = None;
        for (frame, other) in &self.others {
            self.free_run(run, frame.get());
            run = frame.get() + 1;
            match other {
                Other::Poisoned => self.pool.leak(*frame),
                Other::InUse => match self.pool.drop_in_use(*frame, Order::ZERO) {
                    Ok(Dropped::Held) => nr_held += 1,
                    Ok(Dropped::Alone) => self.pool.free_locked(*frame, Order::ZERO),
                    Err(error) => {
                        nr_failed += 1;
                        first_error.get_or_insert(error);
                    }
                },
            }
        }
        self.free_run(run, self.end);
        match first_error {
            None => Ok(nr_held),
            Some(error) => Err(FreeError {
                nr_done: (self.end - self.first) as usize - nr_failed,
                nr_held,
                ..error
            }),
        }
    }

    /// Frees the frames `run..end`, which are locked and the walk's alone.
    fn free_run(&self, run: u32, end: u32) {
        let pool = self.pool;
        match self.strategy {
            FreeRange::OneByOne => {
                for nr in run..end {
                    pool.free_locked(FrameNr::new(nr), Order::ZERO);
                }
            }
            FreeRange::Chunked => {
                for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                    pool.free_chunk(frame, order, self.poisonings);
                }
            }
            FreeRange::Merged => {
                for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                    drop(pool.unsplit(frame, order, self.poisonings));
                }
            }
        }
    }
}

impl<S: RefScheme> FramePool<S> {
    /// Gives back `nr` contiguous frames from `first` on, each owned by its number: of blocks that were
    /// split. Returns how many are not free, because others hold references to them; the last of these
    /// frees them. Poisoned frames are leaked, and count as free.
    ///
    /// # Errors
    ///
    /// [`FreeError`] when the range is empty, leaves the node that it begins in, or has a frame that is not
    /// allocated, or not owned by its number: nothing is changed then. Only if another thread gives up frames
    /// of the range at the same time, or one has as many references as it can count, can it be that the others were
    /// given back: [`FreeError::nr_done`] says how many. What [`free`](Self::free) says of misuse holds here too.
    pub fn free_contig_range(&self, first: FrameNr, nr: usize) -> Result<usize, FreeError> {
        self.free_contig_range_by(first, nr, FreeRange::default())
    }

    /// As [`free_contig_range`](Self::free_contig_range), by a strategy of the caller's.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn free_contig_range_by(
        &self,
        first: FrameNr,
        nr: usize,
        strategy: FreeRange,
    ) -> Result<usize, FreeError> {
        let end = self.check_range(first, nr)?;
        // ORDERING: Acquire; who sees that nothing was poisoned since has seen all flags (`poison`).
        let poisonings = self.poisonings.load(Ordering::Acquire);
        let mut walk = Walk {
            pool: self,
            strategy,
            poisonings,
            first: first.get(),
            end,
            others: Vec::new(),
        };
        for (record, nr) in self.table[first.index()..end as usize]
            .iter()
            .zip(first.get()..)
        {
            // A compare-and-swap waits for every load before it, and every load after it waits for it, so
            // there is as little as can be in this loop. The word is looked at before, so as not to lock what
            // is somebody else's, and once more when nobody can change it.
            if !(record.is_raw(Order::ZERO) && record.refs.free_if_unique()) {
                walk.meet_unlocked(FrameNr::new(nr))?;
            } else if !record.is_raw(Order::ZERO) || record.flags() & meta::POISONED != 0 {
                walk.meet_locked(FrameNr::new(nr))?;
            }
        }
        walk.finish()
    }

    /// Checks where a range lies; returns its end.
    fn check_range(&self, first: FrameNr, nr: usize) -> Result<u32, FreeError> {
        let error = |misuse, frame: usize| {
            // A number that does not fit is far outside anyway.
            let frame = u32::try_from(frame).unwrap_or(u32::MAX);
            Err(FreeError::new(misuse, frame))
        };
        if nr == 0 {
            return error(Misuse::Empty, first.index());
        }
        let Some(node) = self.node_of(first) else {
            return error(Misuse::OutsidePool, first.index());
        };
        let end = first.index().saturating_add(nr);
        if end > self.nr_frames() {
            return error(Misuse::OutsidePool, self.nr_frames());
        }
        let node_end = self.nodes[node].end;
        if end > node_end as usize {
            return error(Misuse::OutsideNode, node_end as usize);
        }
        Ok(end as u32)
    }

    /// Frees a block whose frames are locked and the caller's alone; their words say anything.
    fn free_chunk(&self, frame: FrameNr, order: Order, poisonings: usize) {
        // A page block is as good as one that was never split; smaller ones are to merge.
        let class = Class::of(order).filter(|_| order == Order::PAGE_BLOCK);
        let is_cached = class.is_some_and(|class| {
            let pushed = self.fronts.with_mine(|front| {
                !self.was_poisoned_since(poisonings)
                    && self.free_to_front(front, class, frame, order)
            });
            pushed == Some(true)
        });
        if is_cached {
            return;
        }
        let Some(node) = self.node_of(frame) else {
            return;
        };
        let mut buddy = lock(&self.nodes[node].buddy);
        if self.was_poisoned_since(poisonings) {
            self.free_but_poisoned(&mut buddy, frame, order);
        } else {
            buddy.free(&self.table, frame, order);
        }
    }

    /// Whether anything was poisoned since; asked with the node's lock held, or the front cache at work, or
    /// after a full fence.
    fn was_poisoned_since(&self, poisonings: usize) -> bool {
        // ORDERING: Acquire; pairs with the release increment, so that the flag is seen.
        self.poisonings.load(Ordering::Acquire) != poisonings
    }

    /// Makes one allocated block of single frames that are locked and the caller's alone, and were not
    /// poisoned when the pool had seen so many `poisonings`: undoes what
    /// [`split_locked`](Self::split_locked) did to each.
    fn unsplit(&self, frame: FrameNr, order: Order, poisonings: usize) -> UniqueFrame<'_, S> {
        let frames = frame.index()..frame.index() + order.frames() as usize;
        for record in &self.table[frames] {
            record.set_kind(FrameKind::Tail, Order::ZERO);
        }
        let block = self.adopt(frame, order);
        // Whoever poisons counts it, passes a full fence, and looks for the first frame of the block: either
        // it finds it, or we see that it has counted.
        // ORDERING: SeqCst; store buffering between the word and the counter. The partner is in `poison`.
        fence(Ordering::SeqCst);
        if self.was_poisoned_since(poisonings) {
            self.meta(frame).set_flag(meta::HAS_POISONED);
        }
        block
    }
}
