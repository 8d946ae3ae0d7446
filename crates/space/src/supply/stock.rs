//! Adjacent frames reserved for page tables, so that tables fragment few large blocks.
//!
//! Tables cannot be moved: with one in every 2 MiB, compaction could not assemble large blocks. A
//! whole block is therefore allocated for many tables, and its freed frames are reused first. Its
//! unused frames are freed with the last table, or when an allocation finds no free frame. The
//! holder of the stock's lock allocates no frame.

use pagewell_frame::{FrameNr, FramePool, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::supply::view;

/// Divisor of the pool's size: a block for tables has at most one part in 128 of the frames.
const PART_OF_POOL: usize = 128;

/// Frames for tables. All calls must pass the same `pool`, that of the frames.
#[derive(Debug, Default)]
pub(crate) struct TableStock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<FrameNr>,
    nr_used: usize,
}

fn group(pool: &FramePool) -> Order {
    let frames = pool.nr_frames() / PART_OF_POOL;
    let order = frames.checked_ilog2().unwrap_or(0);
    Order::new(order as u8)
        .unwrap_or(Order::MAX)
        .min(Order::PAGE_BLOCK)
}

impl TableStock {
    /// Counts one more table, and takes a frame for it from the stock or a free block. After
    /// `None`, the caller allocates elsewhere, or calls [`forget`](Self::forget).
    pub(crate) fn take<'p>(&self, pool: &'p FramePool) -> Option<UniqueFrame<'p>> {
        let order = group(pool);
        let mut state = lock(&self.state);
        state.nr_used += 1;
        if let Some(frame) = state.free.pop() {
            return Some(view::withheld(pool, frame));
        }
        drop(state);
        // Only a free block is used: evicting or moving pages for it would cost too much.
        let block = (order > Order::ZERO).then(|| pool.alloc(order)).flatten()?;
        let mut frames = Vec::new();
        pool.split_into(block, &mut frames);
        frames.reverse();
        let frame = frames.pop();
        let spare = frames.into_iter().map(UniqueFrame::into_withheld);
        lock(&self.state).free.extend(spare);
        frame
    }

    /// Uncounts the table, and returns its frame to the stock, or frees it if the stock is full.
    pub(crate) fn put(&self, pool: &FramePool, frame: UniqueFrame<'_>) {
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

    pub(crate) fn forget(&self, pool: &FramePool) {
        let mut state = lock(&self.state);
        state.nr_used -= 1;
        let is_last = state.nr_used == 0;
        drop(state);
        if is_last {
            self.drain(pool);
        }
    }

    pub(crate) fn drain(&self, pool: &FramePool) -> usize {
        let free = std::mem::take(&mut lock(&self.state).free);
        let nr = free.len();
        for frame in free {
            drop(view::withheld(pool, frame));
        }
        nr
    }
}
