//! A set of numbers, of which the greatest is found at once.

/// How many bits a word has.
const BITS: usize = u64::BITS as usize;

/// Numbers below a bound: a bit for each, above that a bit for each word that is not zero, and so on up to one word. So each step takes
/// as many steps as the bound has digits to the base 64, or fewer.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The lowest first.
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    /// The empty set, for numbers below `bound`.
    pub(crate) fn below(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut nr_words = bound;
        loop {
            nr_words = nr_words.div_ceil(BITS).max(1);
            levels.push(vec![0; nr_words]);
            if nr_words == 1 {
                return Self { levels };
            }
        }
    }

    /// Adds a number, which may be there already.
    ///
    /// # Panics
    ///
    /// When it is not below the bound, rounded up.
    pub(crate) fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / BITS];
            let before = *word;
            *word |= 1 << (number % BITS);
            if before != 0 {
                return;
            }
            number /= BITS;
        }
    }

    /// Takes a number out; whether it was there.
    pub(crate) fn remove(&mut self, number: usize) -> bool {
        let has = self.levels[0][number / BITS] >> (number % BITS) & 1 != 0;
        if !has {
            return false;
        }
        let mut number = number;
        for level in &mut self.levels {
            let word = &mut level[number / BITS];
            *word &= !(1 << (number % BITS));
            if *word != 0 {
                break;
            }
            number /= BITS;
        }
        true
    }

    /// The greatest.
    pub(crate) fn last(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            at = at * BITS + word.checked_ilog2()? as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(
            bound in 1..300_000_usize,
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..300),
        ) {
            let mut numbers = Numbers::below(bound);
            let mut twin = BTreeSet::new();
            // Few numbers, so that many steps meet one that is there.
            for (at, is_added) in steps {
                let number = at.index(bound) / 7 * 7;
                if is_added {
                    numbers.insert(number);
                    twin.insert(number);
                } else {
                    prop_assert_eq!(numbers.remove(number), twin.remove(&number));
                }
                prop_assert_eq!(numbers.last(), twin.last().copied());
            }
            while let Some(last) = numbers.last() {
                prop_assert!(numbers.remove(last));
                prop_assert!(twin.remove(&last));
            }
            prop_assert!(twin.is_empty());
        }
    }

    #[test]
    fn the_ends_of_the_range_are_in_it() {
        for bound in [1, 63, 64, 65, 4096, 4097, 262_144, 262_145] {
            let mut numbers = Numbers::below(bound);
            assert_eq!(numbers.last(), None);
            numbers.insert(0);
            assert_eq!(numbers.last(), Some(0));
            numbers.insert(bound - 1);
            assert_eq!(numbers.last(), Some(bound - 1));
            assert!(numbers.remove(bound - 1));
            assert_eq!(numbers.last(), (bound > 1).then_some(0));
        }
    }
}
