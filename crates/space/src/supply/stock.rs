//! Where the frames of tables come from: next to each other, so that they are in the way of few large blocks.
//!
//! Tables cannot be moved. If each were taken from wherever a frame is free, there would be one in every 2 MiB of pages, and
//! compaction would find no place for a large block. So a whole block is taken for many of them, and what is given back is
//! handed out again first. The stock is given back as a whole when no table is left, or memory has run out.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FramePool, Order, Place, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::supply::source::Shared;
use crate::supply::view;

/// A block for tables is at most such a part of the pool.
const PART_OF_POOL: usize = 128;

/// Frames for tables.
#[derive(Debug, Default)]
pub(crate) struct TableStock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Frames that no table is in.
    free: Vec<pagewell_frame::FrameNr>,
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

impl<S: RefScheme> Shared<S> {
    /// A frame for a table; it is to be given to [`free_table_frame`](Self::free_table_frame), or
    /// [`forget_table_frame`](Self::forget_table_frame) is to be called for it.
    pub(crate) fn alloc_table_frame(&self) -> Option<UniqueFrame<'_, S>> {
        let order = group(self.pool());
        let mut state = lock(&self.tables.state);
        state.nr_used += 1;
        if let Some(frame) = state.free.pop() {
            return Some(view::withheld(self.pool(), frame));
        }
        drop(state);
        // A block if there is one free; to make room, or move pages, for it would be too much.
        let block = (order > Order::ZERO)
            .then(|| self.pool().alloc(order))
            .flatten();
        let frame = match block {
            Some(block) => {
                let mut frames = Vec::new();
                self.pool().split_into(block, &mut frames);
                // The lowest first, so that they are handed out in ascending order.
                frames.reverse();
                let frame = frames.pop();
                let spare = frames.into_iter().map(UniqueFrame::into_withheld);
                lock(&self.tables.state).free.extend(spare);
                frame
            }
            None => self.alloc(Order::ZERO, Place::Anywhere),
        };
        if frame.is_none() {
            self.forget_table_frame();
        }
        frame
    }

    /// Gives the frame of a table back.
    pub(crate) fn free_table_frame(&self, frame: UniqueFrame<'_, S>) {
        let most = group(self.pool()).frames() as usize;
        let mut state = lock(&self.tables.state);
        if most > 1 && state.free.len() < most {
            state.free.push(frame.into_withheld());
            drop(state);
        } else {
            drop(state);
            drop(frame);
        }
        self.forget_table_frame();
    }

    /// There is one table less, whose frame the last of those who look at it frees.
    pub(crate) fn forget_table_frame(&self) {
        let mut state = lock(&self.tables.state);
        state.nr_used -= 1;
        let is_last = state.nr_used == 0;
        drop(state);
        if is_last {
            self.drain_table_stock();
        }
    }

    /// Gives all frames that no table is in back to the pool; returns how many those are.
    pub(crate) fn drain_table_stock(&self) -> usize {
        let free = std::mem::take(&mut lock(&self.tables.state).free);
        let nr = free.len();
        for frame in free {
            drop(view::withheld(self.pool(), frame));
        }
        nr
    }
}
