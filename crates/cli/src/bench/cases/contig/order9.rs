//! The case of the published benchmark: allocate a block of order 9, split it, free it as a range.

use std::hint::black_box;

use pagewell_frame::{FramePool, FreeRange, Order};

use super::limit::Records;
use crate::bench::crew::Op;

/// One worker's blocks of a pool that all share.
pub(super) struct Freed<'a> {
    pool: &'a FramePool,
    how: FreeRange,
}

impl<'a> Freed<'a> {
    pub(super) fn new(pool: &'a FramePool, how: FreeRange) -> Freed<'a> {
        Freed { pool, how }
    }
}

impl Op for Freed<'_> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let pool = black_box(self.pool);
        let how = black_box(self.how);
        for _ in 0..times {
            let Some(block) = pool.alloc(Order::PAGE_BLOCK) else {
                return Err("the pool has no block of order 9".to_owned());
            };
            match block.split().free(how) {
                0 => {}
                nr => return Err(format!("{nr} frames that nobody holds were not freed")),
            }
        }
        Ok(())
    }
}

/// The same number of frames, on records of its own.
pub(super) struct Limit(Records);

const NR_FRAMES: usize = Order::PAGE_BLOCK.frames() as usize;

impl Limit {
    pub(super) fn new() -> Limit {
        Limit(Records::new(NR_FRAMES))
    }
}

impl Op for Limit {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let records = black_box(&self.0);
            records.publish(0, NR_FRAMES);
            black_box(records).put(0, NR_FRAMES)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::engines::{HOW, new_pool};
    use super::*;

    #[test]
    fn every_strategy_gives_back_what_it_takes() {
        for how in HOW {
            let pool = new_pool(4096).unwrap();
            assert_eq!(Freed::new(&pool, how).batch(5), Ok(()));
            assert_eq!(pool.stats().nr_available(), 4096);
            assert_eq!(pool.verify(), Ok(()));
        }
        assert_eq!(Limit::new().batch(5), Ok(()));
    }
}
