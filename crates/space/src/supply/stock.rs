//! Frames set aside for page tables: next to each other, so that they are in the way of few large blocks.
//!
//! Tables cannot be moved. If each were taken from wherever a frame is free, there would be one in every 2 MiB of pages, and
//! compaction would find no place for a large block. So a whole block is taken for many of them, and what is given back is
//! handed out again first. The stock is given back as a whole when no table is left, or memory has run out.
//!
//! Locks. One, held for a few steps: no frame is allocated with it held.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::supply::raw;

/// A block for tables is at most such a part of the pool.
const PART_OF_POOL: usize = 128;

/// Frames for tables. `pool` is the one that they are of, in all that is asked.
#[derive(Debug, Default)]
pub(crate) struct TableStock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Frames that no table is in.
    free: Vec<FrameNr>,
    /// How many tables there are.
    nr_used: usize,
}

/// The order of the blocks that are taken for tables.
fn group<S: RefScheme>(pool: &FramePool<S>) -> Order {
    let frames = pool.nr_frames() / PART_OF_POOL;
    let order = frames.checked_ilog2().unwrap_or(0);
    Order::new(order as u8)
        .unwrap_or(Order::MAX)
        .min(Order::PAGE_BLOCK)
}

impl TableStock {
    /// Counts one more table, and takes the frame for it: out of the stock, or of a new block for it, if one is free. If there is
    /// none the caller gets a frame elsewhere; or [`forget`](Self::forget)s the table.
    pub(crate) fn take<'p, S: RefScheme>(
        &self,
        pool: &'p FramePool<S>,
    ) -> Option<UniqueFrame<'p, S>> {
        let order = group(pool);
        let mut state = lock(&self.state);
        state.nr_used += 1;
        if let Some(frame) = state.free.pop() {
            return Some(raw::withheld(pool, frame));
        }
        drop(state);
        // To make room, or move pages, for a block would be too much.
        let block = (order > Order::ZERO).then(|| pool.alloc(order)).flatten()?;
        let mut frames = Vec::new();
        pool.split_into(block, &mut frames);
        // The lowest first, so that they are handed out in ascending order.
        frames.reverse();
        let frame = frames.pop();
        let spare = frames.into_iter().map(UniqueFrame::into_withheld);
        lock(&self.state).free.extend(spare);
        frame
    }

    /// Gives the frame of a table back.
    pub(crate) fn put<S: RefScheme>(&self, pool: &FramePool<S>, frame: UniqueFrame<'_, S>) {
        let most = group(pool).frames() as usize;
        let mut state = lock(&self.state);
        if most > 1 && state.free.len() < most {
            state.free.push(frame.into_withheld());
            drop(state);
        } else {
            drop(state);
            drop(frame);
        }
        self.forget(pool);
    }

    /// There is one table less, whose frame the last of those who look at it frees.
    pub(crate) fn forget<S: RefScheme>(&self, pool: &FramePool<S>) {
        let mut state = lock(&self.state);
        state.nr_used -= 1;
        let is_last = state.nr_used == 0;
        drop(state);
        if is_last {
            self.drain(pool);
        }
    }

    /// Gives all frames that no table is in back to the pool; returns how many those are.
    pub(crate) fn drain<S: RefScheme>(&self, pool: &FramePool<S>) -> usize {
        let free = std::mem::take(&mut lock(&self.state).free);
        let nr = free.len();
        for frame in free {
            drop(raw::withheld(pool, frame));
        }
        nr
    }
}
