//! Hash tables of a fixed size from the keys of pages. Keys are hashes, so parts of them are used
//! as hash values.

use pagewell_policy::Ghost;

use super::Key;

impl Key {
    fn halves(self) -> [u64; 2] {
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(half)
        };
        [half(0), half(8)]
    }
}

/// Table from keys to places, with linear probing. It stores only places: the caller passes a
/// function that returns the key of a place.
///
/// At least a quarter of the slots is empty, so each probe ends.
#[derive(Debug)]
pub(super) struct Index {
    /// For each slot, 0 if it is empty, or else one more than the place.
    slots: Vec<u32>,
}

impl Index {
    const fn nr_slots(nr_places: usize) -> usize {
        (nr_places + nr_places / 3 + 2).next_power_of_two()
    }

    pub(super) const fn bytes(nr_places: usize) -> usize {
        Self::nr_slots(nr_places) * size_of::<u32>()
    }

    /// Creates a table for at most `nr_places` keys.
    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            // The system provides these zeros, and allocates their memory only when they are used.
            slots: vec![0; Self::nr_slots(nr_places)],
        }
    }

    fn home(&self, key: Key) -> usize {
        key.halves()[0] as usize & (self.slots.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Returns the slot of a key.
    fn slot(&self, key: Key, key_of: impl Fn(u32) -> Option<Key>) -> Option<usize> {
        let mut at = self.home(key);
        loop {
            let place = self.slots[at].checked_sub(1)?;
            if key_of(place) == Some(key) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    pub(super) fn find(&self, key: Key, key_of: impl Fn(u32) -> Option<Key>) -> Option<u32> {
        self.slots[self.slot(key, key_of)?].checked_sub(1)
    }

    /// Adds a key, which must be missing.
    pub(super) fn insert(&mut self, key: Key, place: u32) {
        let mut at = self.home(key);
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = place + 1;
    }

    /// Removes a key. `key_of` must still return the keys of all places in the table.
    pub(super) fn remove(&mut self, key: Key, key_of: impl Fn(u32) -> Option<Key>) {
        let Some(mut hole) = self.slot(key, &key_of) else {
            return;
        };
        // A later key of this row of used slots moves into the hole, unless that would be before
        // the first slot of its probe.
        let mask = self.slots.len() - 1;
        let mut at = self.after(hole);
        while let Some(place) = self.slots[at].checked_sub(1) {
            let home = key_of(place).map_or(at, |key| self.home(key));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.slots[hole] = 0;
    }
}

/// Records of evicted pages. A record replaces an older one in the same slot: the policy permits
/// that records are lost.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// For each slot, 0 if it is empty, or else a check value of the key (the high bits, which are
    /// not 0) and the record.
    slots: Vec<u64>,
}

impl Ghosts {
    /// The number of slots is at least twice the number of places. So after one eviction per place,
    /// most records are kept.
    const fn nr_slots(nr_places: usize) -> usize {
        (2 * nr_places).next_power_of_two()
    }

    pub(super) const fn bytes(nr_places: usize) -> usize {
        Self::nr_slots(nr_places) * size_of::<u64>()
    }

    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            // As in `Index::new`.
            slots: vec![0; Self::nr_slots(nr_places)],
        }
    }

    /// Returns the slot of a key, and the check value in its position.
    fn slot(&self, key: Key) -> (usize, u64) {
        let [first, second] = key.halves();
        let check = (first ^ second) << (Ghost::BITS + 1) | 1 << Ghost::BITS;
        (first as usize & (self.slots.len() - 1), check)
    }

    pub(super) fn insert(&mut self, key: Key, ghost: Ghost) {
        let (slot, check) = self.slot(key);
        self.slots[slot] = check | u64::from(ghost.bits());
    }

    /// Removes the record of a key, and returns it.
    pub(super) fn take(&mut self, key: Key) -> Option<Ghost> {
        let (slot, check) = self.slot(key);
        let word = self.slots[slot];
        if word >> Ghost::BITS != check >> Ghost::BITS {
            return None;
        }
        self.slots[slot] = 0;
        // (`from_bits` ignores the check value.)
        Some(Ghost::from_bits(word as u32))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A key whose probe begins at slot `home`.
    fn key(home: u64, nr: u64) -> Key {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&home.to_le_bytes());
        key[8..].copy_from_slice(&nr.to_le_bytes());
        Key(key)
    }

    proptest! {
        /// Few slots and homes, so that keys collide and rows of used slots wrap around.
        #[test]
        fn an_index_finds_exactly_the_keys_that_it_has(
            steps in prop::collection::vec((0_u64..16, 0_u64..3, any::<bool>()), 0..200),
        ) {
            const NR_PLACES: usize = 10;
            let mut index = Index::new(NR_PLACES);
            let mut places = [None; NR_PLACES];
            let mut model = HashMap::new();
            for (home, nr, is_added) in steps {
                let key = key(home, nr);
                let free = places.iter().position(Option::is_none);
                match (model.get(&key), free, is_added) {
                    (None, Some(place), true) => {
                        places[place] = Some(key);
                        index.insert(key, place as u32);
                        model.insert(key, place as u32);
                    }
                    (Some(&place), _, false) => {
                        index.remove(key, |place| places[place as usize]);
                        places[place as usize] = None;
                        model.remove(&key);
                    }
                    _ => {}
                }
                for home in 0..16 {
                    for nr in 0..3 {
                        let key = self::key(home, nr);
                        let found = index.find(key, |place| places[place as usize]);
                        prop_assert_eq!(found, model.get(&key).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn a_ghost_is_returned_once_and_to_its_key() {
        let mut ghosts = Ghosts::new(4);
        let ghost = |nr| Ghost::from_bits(nr);
        for nr in 0..8 {
            ghosts.insert(key(nr, 5), ghost(nr as u32 + 1));
        }
        assert_eq!(ghosts.take(key(3, 4)), None);
        assert_eq!(ghosts.take(key(11, 5)), None);
        for nr in 0..8 {
            assert_eq!(ghosts.take(key(nr, 5)), Some(ghost(nr as u32 + 1)));
            assert_eq!(ghosts.take(key(nr, 5)), None);
        }
        // The later of two records in one slot stays.
        ghosts.insert(key(2, 1), ghost(1));
        ghosts.insert(key(10, 7), ghost(2));
        assert_eq!(ghosts.take(key(2, 1)), None);
        assert_eq!(ghosts.take(key(10, 7)), Some(ghost(2)));
        let all = Ghost::from_bits(u32::MAX);
        ghosts.insert(key(u64::MAX, 0), all);
        assert_eq!(ghosts.take(key(u64::MAX, 0)), Some(all));
    }
}
