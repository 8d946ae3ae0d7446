//! Ranges of one length, each from an odd frame on.
//!
//! Freeing a range uses it up, and allocating one of an odd length takes longer than freeing it: so only
//! the freeing is timed. What is set up before it is one or more adjacent blocks of the highest order,
//! split into frames, and cut into slots with a range in each. The first frame of a slot and those after
//! the range stay allocated meanwhile, so that no range merges with its neighbours. A range of several blocks
//! is one handle for each of them, freed in ascending order: no block that is freed reaches beyond them.

use std::hint::black_box;

use pagewell_frame::{FramePool, FrameRange, FreeRange, Order, UniqueFrame};

use super::limit::Records;
use crate::bench::crew::StagedOp;
use crate::failure::Failure;

/// Where the ranges are: in the frames from 0 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges {
    /// Frames of a range.
    len: usize,
    /// Frames from one range to the next: even, so that all begin at an odd frame.
    slot: usize,
    /// Blocks of the highest order that they are cut from.
    nr_blocks: usize,
}

const BLOCK: usize = Order::MAX.frames() as usize;

impl Ranges {
    /// Ranges of `len` frames: as many as fit into one block, or a single one that needs several.
    pub(super) fn new(len: u64) -> Ranges {
        let len = len as usize;
        let slot = if len < BLOCK {
            (len + 1).next_power_of_two()
        } else {
            (len + 1).next_multiple_of(BLOCK)
        };
        Ranges {
            len,
            slot,
            nr_blocks: slot.div_ceil(BLOCK),
        }
    }

    fn nr_frames(&self) -> usize {
        self.nr_blocks * BLOCK
    }

    fn nr(&self) -> usize {
        self.nr_frames() / self.slot
    }

    /// The first frame of each range.
    fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        let slot = self.slot;
        (0..self.nr()).map(move |nr| nr * slot + 1)
    }
}

/// One strategy, in a pool whose other frames are all taken.
pub(super) struct Freed<'a> {
    pool: &'a FramePool,
    how: FreeRange,
    ranges: Ranges,
    /// All blocks of the pool but those that the ranges are in.
    _others: Vec<UniqueFrame<'a>>,
    /// The ranges, in ascending order.
    pieces: Vec<FrameRange<'a>>,
    /// What is between them.
    rests: Vec<FrameRange<'a>>,
}

impl<'a> Freed<'a> {
    /// Takes all blocks of the pool but those that the ranges are in, so that allocating gives these
    /// again and again. The pool is to be new.
    pub(super) fn new(
        pool: &'a FramePool,
        how: FreeRange,
        ranges: Ranges,
    ) -> Result<Freed<'a>, Failure> {
        if pool.nr_frames() < ranges.nr_frames() {
            return Err(Failure::Run(format!(
                "a range of {} frames does not fit into the pool",
                ranges.len
            )));
        }
        // All at once, since each that is given back would be the next one to be allocated.
        let mut others: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::MAX)).collect();
        others.retain(|block| block.frame().index() >= ranges.nr_frames());
        Ok(Freed {
            pool,
            how,
            ranges,
            _others: others,
            pieces: Vec::new(),
            rests: Vec::new(),
        })
    }

    /// Cuts a block, split, where a range begins or ends.
    fn cut(&mut self, mut block: FrameRange<'a>) {
        let Ranges { len, slot, .. } = self.ranges;
        loop {
            let at = block.first().index() % slot;
            let (is_piece, end) = match at {
                0 => (false, 1),
                at if at <= len => (true, len + 1),
                _ => (false, slot),
            };
            let rest = block.split_off(end - at);
            if is_piece {
                self.pieces.push(block);
            } else {
                self.rests.push(block);
            }
            match rest {
                Some(rest) => block = rest,
                None => return,
            }
        }
    }
}

fn free(range: FrameRange<'_>, how: FreeRange) -> Result<(), String> {
    match range.free(how) {
        0 => Ok(()),
        nr => Err(format!("{nr} frames that nobody holds were not freed")),
    }
}

impl StagedOp for Freed<'_> {
    fn set_up(&mut self) -> Result<(), String> {
        for _ in 0..self.ranges.nr_blocks {
            let Some(block) = self.pool.alloc(Order::MAX) else {
                return Err("the frames of the ranges do not merge again".to_owned());
            };
            self.cut(block.split());
        }
        self.pieces.sort_unstable_by_key(FrameRange::first);
        Ok(())
    }

    #[inline(never)]
    fn act(&mut self) -> Result<(), String> {
        for range in black_box(&mut self.pieces).drain(..) {
            free(range, self.how)?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        for range in self.rests.drain(..) {
            free(range, FreeRange::Chunked)?;
        }
        self.pool.drain_front_caches();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.ranges.nr() as u64
    }
}

/// The same frames, on records of its own.
pub(super) struct Limit {
    records: Records,
    ranges: Ranges,
}

impl Limit {
    pub(super) fn new(ranges: Ranges) -> Limit {
        Limit {
            records: Records::new(ranges.nr_frames()),
            ranges,
        }
    }
}

impl StagedOp for Limit {
    fn set_up(&mut self) -> Result<(), String> {
        // All of them, as splitting does: what the processor has in its caches is part of the time.
        self.records.publish(0, self.ranges.nr_frames());
        Ok(())
    }

    #[inline(never)]
    fn act(&mut self) -> Result<(), String> {
        let ranges = black_box(self.ranges);
        for start in ranges.starts() {
            self.records.put(start, ranges.len)?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.ranges.nr() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::engines::{HOW, new_pool};
    use super::*;

    const LENGTHS: [u64; 9] = [1, 2, 3, 7, 8, 63, 511, 1023, 4095];

    #[test]
    fn ranges_begin_at_odd_frames_and_lie_apart() {
        for len in LENGTHS {
            let ranges = Ranges::new(len);
            let starts: Vec<usize> = ranges.starts().collect();
            assert!(starts.iter().all(|start| start % 2 == 1), "{ranges:?}");
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] > ranges.len));
            let last = starts[starts.len() - 1];
            assert!(last + ranges.len <= ranges.nr_frames(), "{ranges:?}");
        }
        assert_eq!(Ranges::new(1).nr(), 512);
        assert_eq!(Ranges::new(1023).nr(), 1);
        assert_eq!(Ranges::new(1024).nr_blocks, 2);
    }

    #[test]
    fn every_strategy_finds_its_ranges_again() {
        for how in HOW {
            for len in LENGTHS {
                let ranges = Ranges::new(len);
                let pool = new_pool(8 * BLOCK).unwrap();
                let mut freed = Freed::new(&pool, how, ranges).unwrap();
                for _ in 0..3 {
                    assert_eq!(freed.set_up(), Ok(()));
                    assert_eq!(freed.act(), Ok(()));
                    assert_eq!(pool.stats().nr_available(), ranges.nr() * ranges.len);
                    assert_eq!(freed.clear(), Ok(()));
                    assert_eq!(pool.verify(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn the_limit_counts_the_same_frames() {
        for len in LENGTHS {
            let mut limit = Limit::new(Ranges::new(len));
            assert_eq!(limit.set_up(), Ok(()));
            assert_eq!(limit.act(), Ok(()));
            assert!(limit.act().is_err());
        }
    }
}
