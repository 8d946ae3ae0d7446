//! Blocks that are freed by the thread that allocated them: at once, or in bursts.

use std::hint::black_box;

use pagewell_frame::Order;

use super::frames::{Frames, exhausted};
use crate::bench::crew::Op;

/// Allocates a block and frees it.
pub(super) struct Pairs<'a, F> {
    frames: &'a F,
    order: Order,
}

impl<'a, F: Frames> Pairs<'a, F> {
    pub(super) fn new(frames: &'a F, order: Order) -> Pairs<'a, F> {
        Pairs { frames, order }
    }
}

impl<F: Frames> Op for Pairs<'_, F> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let frames = black_box(self.frames);
        let order = black_box(self.order);
        for _ in 0..times {
            let Some(block) = frames.alloc(order) else {
                return Err(exhausted(order));
            };
            drop(black_box(block));
        }
        Ok(())
    }
}

/// Allocates several blocks, then frees them in the same order. Counted by the block.
pub(super) struct Bursts<'a, F: Frames + 'a> {
    frames: &'a F,
    order: Order,
    blocks: Vec<F::Block<'a>>,
    nr: usize,
}

impl<'a, F: Frames> Bursts<'a, F> {
    pub(super) fn new(frames: &'a F, order: Order, nr: usize) -> Bursts<'a, F> {
        Bursts {
            frames,
            order,
            blocks: Vec::with_capacity(nr),
            nr,
        }
    }
}

impl<'a, F: Frames> Op for Bursts<'a, F> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let frames: &'a F = black_box(self.frames);
        let order = black_box(self.order);
        for _ in 0..times {
            for _ in 0..self.nr {
                let Some(block) = frames.alloc(order) else {
                    return Err(exhausted(order));
                };
                self.blocks.push(block);
            }
            self.blocks.clear();
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.nr as u64
    }
}
