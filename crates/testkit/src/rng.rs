//! A small deterministic generator of pseudo-random numbers.
//!
//! Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
//! (SplitMix64).

/// The distance between successive states: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes the bits of `x`, so that numbers which differ in one bit give results without likeness.
#[must_use]
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// A generator: the same seed gives the same numbers, on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that starts from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator of its own for part number `part` (a thread, a case) of a test with this `seed`.
    #[must_use]
    pub const fn part(seed: u64, part: u64) -> Self {
        Self::new(mix(seed ^ mix(part.wrapping_add(STEP))))
    }

    /// The next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number less than `n`.
    ///
    /// # Panics
    ///
    /// When `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        assert!(n != 0);
        // The high half of the product: as even as 64 random bits can be.
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }

    /// A position less than `n`, for indexing.
    ///
    /// # Panics
    ///
    /// When `n` is 0.
    pub const fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True with a probability of one in `n`.
    ///
    /// # Panics
    ///
    /// When `n` is 0.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_others() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u64(), rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(Rng::part(7, 0).next_u64(), Rng::part(7, 1).next_u64());
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[rng.index(10)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
    }
}
