//! The seed of a test: printed when the test fails, taken from the environment to replay it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::rng::Rng;

/// The environment variable that gives the seed: decimal, or hexadecimal after `0x`.
pub const VARIABLE: &str = "PAGEWELL_SEED";

/// The seed of a test. If a panic drops it, it prints how to repeat the run.
///
/// ```
/// let seed = pagewell_testkit::Seed::of_run();
/// let mut rng = seed.rng();
/// assert!(rng.below(10) < 10); // if this fails, the seed is printed
/// ```
#[derive(Debug)]
pub struct Seed {
    seed: u64,
}

impl Seed {
    /// The seed that the environment gives, or else another one in every run.
    ///
    /// # Panics
    ///
    /// When the environment gives something that is not a number.
    #[must_use]
    pub fn of_run() -> Self {
        let seed = match std::env::var(VARIABLE) {
            Ok(text) => match parse(&text) {
                Some(seed) => seed,
                None => panic!("{VARIABLE}={text}: not a number of 64 bits"),
            },
            // The keys of the standard library's hash maps are random: the only source of randomness in `std`.
            Err(_) => RandomState::new().hash_one(0_u8),
        };
        Self { seed }
    }

    /// The number itself.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.seed
    }

    /// A generator that starts from this seed.
    #[must_use]
    pub fn rng(&self) -> Rng {
        Rng::new(self.seed)
    }

    /// A generator of its own for part number `part` of the test.
    #[must_use]
    pub fn part(&self, part: u64) -> Rng {
        Rng::part(self.seed, part)
    }

    /// The message that says how to repeat the run.
    #[must_use]
    pub fn to_replay(&self) -> String {
        format!("to replay: {VARIABLE}={:#x}", self.seed)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.to_replay());
        }
    }
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_in_both_bases_and_as_they_are_printed() {
        assert_eq!(parse("12"), Some(12));
        assert_eq!(parse("0xfF"), Some(255));
        assert_eq!(parse("0x1_0"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("18446744073709551616"), None);
        let seed = Seed { seed: u64::MAX - 1 };
        let said = seed.to_replay();
        assert_eq!(
            said.split_once('=').and_then(|(_, s)| parse(s)),
            Some(seed.get())
        );
    }
}
