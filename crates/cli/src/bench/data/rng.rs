//! Pseudo-random numbers, cheap enough to stand in a timed loop.

/// A generator whose state only ever has a constant added, so that the numbers of
/// successive operations do not wait for each other. The mixing is that of wyrand
/// (Wang Yi, public domain).
#[derive(Clone, Debug)]
pub(in crate::bench) struct Rng(u64);

impl Rng {
    pub(in crate::bench) fn new(seed: u64) -> Rng {
        // Neighbouring seeds shall not give neighbouring sequences.
        let mut rng = Rng(seed);
        Rng(rng.next() ^ seed.rotate_left(32))
    }

    #[inline]
    pub(in crate::bench) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// A number below `n`, which is not 0.
    #[inline]
    pub(in crate::bench) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_the_limit_and_reach_all_of_it() {
        let mut rng = Rng::new(7);
        let mut seen = [0_u32; 16];
        for _ in 0..1600 {
            seen[rng.below(16) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| times > 50), "{seen:?}");
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }
}
