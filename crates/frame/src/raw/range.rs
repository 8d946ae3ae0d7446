//! Freeing contiguous ranges of frames as the largest aligned blocks.
//!
//! What. A range is what is left of blocks that were split, so that each frame could be held by itself. It
//! is freed in one walk: each frame's reference is given up (one compare-and-swap, see `give_up`), and every
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
//!    `give_up`.
//!
//! Walks go upwards, so of two that meet, over the same frames, one finishes. Nothing waits for anything but
//! the node's lock.
//!
//! Source: Linux memory-management list, "mm/page_alloc: Optimize free_contig_range()" (January 2026).

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::lock;

use super::error::{FreeError, Misuse};
use super::give_up::{Dropped, drop_in_use, misuse_of, thaw};
use crate::count::RefScheme;
use crate::lists::{Class, FreeLists};
use crate::records::{HAS_POISONED, POISONED};
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
        let record = self.lists.meta(frame);
        if record.is_raw(Order::ZERO) && !record.refs.is_locked() {
            self.others.push((frame, Other::InUse));
            return Ok(());
        }
        self.undo(frame);
        let misuse = misuse_of(self.lists, frame, Order::ZERO);
        Err(FreeError::new(misuse, frame.get()))
    }

    /// A frame that the walk has locked, and that is poisoned, or somebody else's after all.
    ///
    /// # Errors
    ///
    /// The latter: then everything is as it was before the walk.
    #[cold]
    fn meet_locked(&mut self, frame: FrameNr) -> Result<(), FreeError> {
        if self.lists.meta(frame).is_raw(Order::ZERO) {
            self.others.push((frame, Other::Poisoned));
            return Ok(());
        }
        self.undo(frame);
        Err(thaw(self.lists, frame, Order::ZERO))
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
        for (frame, other) in &self.others {
            self.free_run(run, frame.get());
            run = frame.get() + 1;
            match other {
                Other::Poisoned => self.lists.leak(*frame),
                Other::InUse => match drop_in_use(self.lists, *frame, Order::ZERO) {
                    Ok(Dropped::Held) => nr_held += 1,
                    Ok(Dropped::Alone) => self.lists.free_locked(*frame, Order::ZERO),
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
        let lists = self.lists;
        match self.strategy {
            FreeRange::OneByOne => {
                for nr in run..end {
                    lists.free_locked(FrameNr::new(nr), Order::ZERO);
                }
            }
            FreeRange::Chunked => {
                for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                    free_chunk(lists, frame, order, self.poisonings);
                }
            }
            FreeRange::Merged => {
                for (frame, order) in blocks_of(run, end, Order::PAGE_BLOCK) {
                    unsplit(lists, frame, order, self.poisonings);
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
    let poisonings = lists.poisonings();
    let mut walk = Walk {
        lists,
        strategy,
        poisonings,
        first: first.get(),
        end,
        others: Vec::new(),
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
        } else if !record.is_raw(Order::ZERO) || record.flags() & POISONED != 0 {
            walk.meet_locked(FrameNr::new(nr))?;
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
fn free_chunk<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order, poisonings: usize) {
    // A page block is as good as one that was never split; smaller ones are to merge.
    let class = Class::of(order).filter(|_| order == Order::PAGE_BLOCK);
    let is_cached = class.is_some_and(|class| {
        let pushed = lists.fronts.with_mine(|front| {
            !lists.was_poisoned_since(poisonings) && lists.free_to_front(front, class, frame, order)
        });
        pushed == Some(true)
    });
    if is_cached {
        return;
    }
    let Some(node) = lists.node_of(frame) else {
        return;
    };
    let mut buddy = lock(&lists.nodes[node].buddy);
    if lists.was_poisoned_since(poisonings) {
        lists.free_but_poisoned(&mut buddy, frame, order);
    } else {
        buddy.free(&lists.table, frame, order);
    }
}

/// Makes one allocated block of single frames that are locked and the caller's alone, and were not
/// poisoned when the pool had seen so many `poisonings`: undoes what
/// [`split_locked`](super::give_up::split_locked) did to each.
fn unsplit<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr, order: Order, poisonings: usize) {
    let frames = frame.index()..frame.index() + order.frames() as usize;
    for record in &lists.table[frames] {
        record.set_kind(FrameKind::Tail, Order::ZERO);
    }
    lists.adopt(frame, order);
    // Whoever poisons counts it, passes a full fence, and looks for the first frame of the block: either
    // it finds it, or we see that it has counted.
    // ORDERING: SeqCst; store buffering between the word and the counter. The partner is in `poison`.
    fence(Ordering::SeqCst);
    if lists.was_poisoned_since(poisonings) {
        lists.meta(frame).set_flag(HAS_POISONED);
    }
}
