//! How much of the free memory is in large blocks after a history of blocks, ranges and held frames.
//!
//! The history is the same for every strategy: each step draws the same numbers, whatever came of the
//! steps before it. Front caches are drained at the end, since what is in them can merge at any time.

use pagewell_frame::{FramePool, FrameRange, FrameRef, FreeRange, Order, UniqueFrame};

use super::engines::{HOW, STRATEGIES, check, new_pool};
use crate::bench::crew::Speeds;
use crate::bench::data::Rng;
use crate::failure::Failure;

/// 256 MiB: 128 page blocks.
const NR_FRAMES: usize = 64 << 10;
const NR_STEPS: u32 = 20_000;
/// Steps allocate while fewer frames than this are allocated, and free as soon as there are more.
const NR_WANTED: usize = NR_FRAMES / 4 * 3;
/// One in so many ranges has a frame that somebody holds on to.
const HELD_ONE_IN: u64 = 8;
const MOST_HELD: usize = 16;
/// How many blocks and parts of ranges are left in the end: about half as many as there are page blocks,
/// so that the share is neither 0 nor 1 whatever happens.
const NR_LEFT: usize = 64;

/// The share of free memory in page blocks and larger ones: one value a strategy and round. Each round
/// is another history.
pub(super) fn run(rounds: u32) -> Result<Speeds, Failure> {
    let mut shares = Vec::new();
    for (engine, how) in STRATEGIES.iter().zip(HOW) {
        let mut of_rounds = Vec::new();
        for round in 0..rounds {
            let pool = new_pool(NR_FRAMES)?;
            let share = History::new(&pool, how)
                .run(u64::from(round), NR_STEPS)
                .map_err(|error| Failure::because(engine, error))?;
            check(engine, &pool)?;
            of_rounds.push(share);
        }
        shares.push(of_rounds);
    }
    Ok(Speeds::of(shares))
}

/// What is allocated at a moment.
struct History<'a> {
    pool: &'a FramePool,
    how: FreeRange,
    blocks: Vec<UniqueFrame<'a>>,
    ranges: Vec<FrameRange<'a>>,
    held: Vec<FrameRef<'a>>,
    /// Frames of blocks and ranges.
    nr_used: usize,
}

/// The random numbers of one step.
struct Step {
    order: u64,
    is_split: bool,
    which: u64,
    from: u64,
    to: u64,
    holds: bool,
}

impl Step {
    fn draw(rng: &mut Rng) -> Step {
        Step {
            order: rng.below(Order::COUNT as u64),
            is_split: rng.below(2) == 0,
            which: rng.next(),
            from: rng.next(),
            to: rng.next(),
            holds: rng.below(HELD_ONE_IN) == 0,
        }
    }
}

impl<'a> History<'a> {
    fn new(pool: &'a FramePool, how: FreeRange) -> History<'a> {
        History {
            pool,
            how,
            blocks: Vec::new(),
            ranges: Vec::new(),
            held: Vec::new(),
            nr_used: 0,
        }
    }

    /// Runs it; the share in the end, with what is allocated then still in place.
    fn run(&mut self, seed: u64, nr_steps: u32) -> Result<f64, String> {
        let mut rng = Rng::new(seed);
        for _ in 0..nr_steps {
            let step = Step::draw(&mut rng);
            if self.nr_used < NR_WANTED {
                self.allocate(&step);
            } else {
                self.free(&step);
            }
        }
        while self.blocks.len() + self.ranges.len() > NR_LEFT {
            self.free_whole(rng.next());
        }
        self.pool.drain_front_caches();
        let blocks = self.pool.free_blocks();
        blocks
            .share_from(Order::PAGE_BLOCK)
            .ok_or_else(|| "no memory is free".to_owned())
    }

    /// A block, kept whole or split. That there is none of the order is part of the history.
    fn allocate(&mut self, step: &Step) {
        let order = Order::new(step.order as u8).unwrap_or(Order::ZERO);
        let Some(block) = self.pool.alloc(order) else {
            return;
        };
        self.nr_used += order.frames() as usize;
        if step.is_split {
            self.ranges.push(block.split());
        } else {
            self.blocks.push(block);
        }
    }

    /// A block, or a part of a range that begins and ends anywhere.
    fn free(&mut self, step: &Step) {
        if !step.is_split || self.ranges.is_empty() {
            return self.free_whole(step.which);
        }
        let at = step.which % self.ranges.len() as u64;
        let mut range = self.ranges.swap_remove(at as usize);
        let nr = range.len();
        let from = (step.from % nr as u64) as usize;
        let to = from + 1 + (step.to % (nr - from) as u64) as usize;
        let behind = range.split_off(to);
        let (before, part) = match range.split_off(from) {
            Some(part) => (Some(range), part),
            None => (None, range),
        };
        if step.holds {
            self.hold(&part);
        }
        self.free_range(part);
        self.ranges.extend([before, behind].into_iter().flatten());
    }

    /// Any block, or all that is left of any range.
    fn free_whole(&mut self, which: u64) {
        let nr = self.blocks.len() + self.ranges.len();
        if nr == 0 {
            return;
        }
        let at = (which % nr as u64) as usize;
        if at < self.blocks.len() {
            let block = self.blocks.swap_remove(at);
            self.nr_used -= block.order().frames() as usize;
        } else {
            let range = self.ranges.swap_remove(at - self.blocks.len());
            self.free_range(range);
        }
    }

    fn free_range(&mut self, range: FrameRange<'a>) {
        self.nr_used -= range.len();
        // How many frames are held does not matter: they are free for the history.
        let _ = range.free(self.how);
    }

    /// Takes a reference that outlives the first frame's range; beyond [`MOST_HELD`] the oldest one ends.
    fn hold(&mut self, range: &FrameRange<'a>) {
        self.held.extend(range.get(0));
        if self.held.len() > MOST_HELD {
            self.held.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_adds_up_and_is_the_same_again() {
        for how in HOW {
            let share = |seed| {
                let pool = new_pool(NR_FRAMES).unwrap();
                let share = History::new(&pool, how).run(seed, 1000).unwrap();
                assert_eq!(pool.verify(), Ok(()));
                share
            };
            let first = share(1);
            assert!((0.0..=1.0).contains(&first));
            assert_eq!(first, share(1));
        }
    }
}
