//! Where in a file the next read begins.

use super::rng::Rng;

/// A sequence of offsets without an end.
pub(in crate::bench) trait Positions: Clone + Send {
    fn next(&mut self) -> u64;
}

/// The same offset each time.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Fixed(pub(in crate::bench) u64);

impl Positions for Fixed {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0
    }
}

/// Any block of a file, with the same chance for each.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Uniform {
    rng: Rng,
    nr_blocks: u64,
    block: u64,
}

impl Uniform {
    /// The whole blocks of a file that is at least one block long.
    pub(in crate::bench) fn new(file_bytes: u64, block: u64, seed: u64) -> Uniform {
        assert!(block > 0 && block <= file_bytes, "no whole block");
        Uniform {
            rng: Rng::new(seed),
            nr_blocks: file_bytes / block,
            block,
        }
    }
}

impl Positions for Uniform {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.rng.below(self.nr_blocks) * self.block
    }
}

/// Any odd offset from which on a file has a block, with the same chance for each.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Odd {
    rng: Rng,
    nr_offsets: u64,
}

impl Odd {
    /// Of a file that is longer than a block.
    pub(in crate::bench) fn new(file_bytes: u64, block: u64, seed: u64) -> Odd {
        assert!(block > 0 && block < file_bytes, "no block at an odd offset");
        Odd {
            rng: Rng::new(seed),
            nr_offsets: (file_bytes - block).div_ceil(2),
        }
    }
}

impl Positions for Odd {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.rng.below(self.nr_offsets) * 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_offsets_are_odd_and_leave_room_for_the_block() {
        for (bytes, block) in [(5000, 64), (5001, 64), (5000, 512), (2, 1), (514, 512)] {
            let mut positions = Odd::new(bytes, block, 3);
            let mut last = 0;
            for _ in 0..10_000 {
                let position = positions.next();
                assert_eq!(position % 2, 1);
                assert!(position + block <= bytes, "{position} of {bytes}");
                last = last.max(position);
            }
            // The last of them is met.
            assert!(last + block + 2 > bytes, "{last} of {bytes}");
        }
    }

    #[test]
    fn random_blocks_are_aligned_and_within_the_file() {
        let mut positions = Uniform::new(5000, 64, 3);
        for _ in 0..10_000 {
            let position = positions.next();
            assert_eq!(position % 64, 0);
            assert!(position + 64 <= 5000);
        }
    }

    #[test]
    fn a_file_of_one_block_has_one_position() {
        let mut positions = Uniform::new(5000, 4096, 3);
        assert!((0..100).all(|_| positions.next() == 0));
    }
}
