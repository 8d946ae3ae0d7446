//! Freeing contiguous ranges of frames as the largest aligned blocks.
//!
//! What. A range is a part of blocks that were split, so that each frame could be held by itself. It
//! is freed in one walk: each frame's reference is given up (one compare-and-swap, see `give_up`). Every
//! run of frames that are free then is cut into the largest blocks that are aligned to their size, fit the
//! rest of the run and are no larger than a page block.
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
//! 1. Walk the range: lock each frame whose only reference is the owner's. Note the others.
//! 2. If a frame may not be freed, unlock the locked frames, and return an error, which changes nothing. (A
//!    late `try_get` of a frame that is locked meanwhile fails, as if it had come during a freeze.)
//! 3. Free the runs of locked frames; give up frames that others hold, as in `give_up`.
//!
//! Walks go upwards, so of two walks that meet in the same frames, one finishes. The walk waits only for
//! the node's lock.
//!
//! Source: Linux memory-management list, "mm/page_alloc: Optimize free_contig_range()" (January 2026).

use super::error::{FreeError, Misuse};
use super::give_up::{Dropped, drop_in_use, misuse_of, thaw};
use crate::count::RefScheme;
use crate::lists::{Class, FreeLists};
use crate::words::{FrameKind, FrameNr, Order, blocks_of};

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

/// One walk over a range.
struct Walk<'p, S: RefScheme> {
    lists: &'p FreeLists<S>,
    strategy: FreeRange,
    first: u32,
    end: u32,
    /// The frames, in ascending order, to which others hold references; the owner's are not given up yet. All other frames
    /// of the range, as far as the walk has come, are locked by it.
    in_use: Vec<FrameNr>,
}

impl<S: RefScheme> Walk<'_, S> {
    /// A frame that the walk has not locked.
    ///
    /// # Errors
    ///
    /// It is not one to be freed: then everything is as it was before the walk.
    #[cold]
    fn meet_unlocked(&mut self, frame: FrameNr) -> Result<(), FreeError> {
        let record = self.lists.meta(frame);
        if record.is_raw(Order::ZERO) && !record.refs.is_locked() {
            self.in_use.push(frame);
            return Ok(());
        }
        self.undo(frame);
        let misuse = misuse_of(self.lists, frame, Order::ZERO);
        Err(FreeError::new(misuse, frame.get()))
    }

    /// A frame that the walk has locked, and that is somebody else's after all: everything is as it was before the walk.
    #[cold]
    fn meet_locked(&self, frame: FrameNr) -> FreeError {
        self.undo(frame);
        thaw(self.lists, frame, Order::ZERO)
    }

    /// Unlocks what the walk has locked, which is everything before `end` but what is in use.
    fn undo(&self, end: FrameNr) {
        let mut in_use = self.in_use.iter().peekable();
        for nr in self.first..end.get() {
            if in_use.next_if(|frame| frame.get() == nr).is_none() {
                self.lists.meta(FrameNr::new(nr)).refs.unfreeze(1);
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
        for frame in &self.in_use {
            self.free_run(run, frame.get());
            run = frame.get() + 1;
            match drop_in_use(self.lists, *frame, Order::ZERO) {
                Ok(Dropped::Held) => nr_held += 1,
                Ok(Dropped::Alone) => self.lists.free_locked(*frame, Order::ZERO),
                Err(error) => {
                    nr_failed += 1;
                    first_error.get_or_insert(error);
                }
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
        let lists = self.lists;
        match self.strategy {
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
}

/// Gives back contiguous frames, each owned by its number: see
/// [`FramePool::free_contig_range`](crate::FramePool::free_contig_range).
pub(crate) fn free_contig_range<S: RefScheme>(
    lists: &FreeLists<S>,
    first: FrameNr,
    nr: usize,
    strategy: FreeRange,
) -> Result<usize, FreeError> {
    let end = check_range(lists, first, nr)?;
    let mut walk = Walk {
        lists,
        strategy,
        first: first.get(),
        end,
        in_use: Vec::new(),
    };
    for (record, nr) in lists.table[first.index()..end as usize]
        .iter()
        .zip(first.get()..)
    {
        // A compare-and-swap waits for every load before it, and every load after it waits for it, so
        // there is as little as can be in this loop. The word is looked at before, so as not to lock what
        // is somebody else's, and once more when nobody can change it.
        if !(record.is_raw(Order::ZERO) && record.refs.free_if_unique()) {
            walk.meet_unlocked(FrameNr::new(nr))?;
        } else if !record.is_raw(Order::ZERO) {
            return Err(walk.meet_locked(FrameNr::new(nr)));
        }
    }
    walk.finish()
}

/// Checks where a range lies; returns its end.
fn check_range<S: RefScheme>(
    lists: &FreeLists<S>,
    first: FrameNr,
    nr: usize,
) -> Result<u32, FreeError> {
    let error = |misuse, frame: usize| {
        // A number that does not fit is far outside anyway.
        let frame = u32::try_from(frame).unwrap_or(u32::MAX);
        Err(FreeError::new(misuse, frame))
    };
    if nr == 0 {
        return error(Misuse::Empty, first.index());
    }
    let Some(node) = lists.node_of(first) else {
        return error(Misuse::OutsidePool, first.index());
    };
    let end = first.index().saturating_add(nr);
    if end > lists.nr_frames() {
        return error(Misuse::OutsidePool, lists.nr_frames());
    }
    let node_end = lists.nodes[node].end;
    if end > node_end as usize {
        return error(Misuse::OutsideNode, node_end as usize);
    }
    Ok(end as u32)
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
/// [`split_locked`](super::give_up::split_locked) did to each.
fn unsplit<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order) {
    let frames = frame.index()..frame.index() + order.frames() as usize;
    for record in &lists.table[frames] {
        record.set_kind(FrameKind::Tail, Order::ZERO);
    }
    lists.adopt(frame, order);
}
