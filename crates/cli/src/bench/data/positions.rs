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

#[cfg(test)]
mod tests {
    use super::*;

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
