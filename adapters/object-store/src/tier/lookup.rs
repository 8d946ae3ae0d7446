//! Hash tables of a fixed size: places by key, records of evicted pages by key, and page counts by
//! location. Keys and locations are hashes, whose parts serve as hash values.

use pagewell_policy::Ghost;

use super::{Key, LocationHash};

impl Key {
    pub(super) fn location(self) -> LocationHash {
        let [.., a, b, c, d] = self.0;
        LocationHash([a, b, c, d])
    }

    fn halves(self) -> [u64; 2] {
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(half)
        };
        [half(0), half(8)]
    }
}

/// Returns the next slot of a table, whose number of slots is a power of two.
fn next_slot<T>(slots: &[T], at: usize) -> usize {
    (at + 1) & (slots.len() - 1)
}

/// Empties slot `hole`. `home_of` returns the slot at which the probe for given contents begins.
fn remove_at<T: Copy + Default + PartialEq>(
    slots: &mut [T],
    mut hole: usize,
    home_of: impl Fn(T) -> usize,
) {
    let empty = T::default();
    let mask = slots.len() - 1;
    let mut at = next_slot(slots, hole);
    // Move the contents of each following used slot into the hole, unless their home is after it.
    while slots[at] != empty {
        let home = home_of(slots[at]);
        if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
            slots[hole] = slots[at];
            hole = at;
        }
        at = next_slot(slots, at);
    }
    slots[hole] = empty;
}

/// Map from keys to places, with linear probing. The caller provides the keys of places.
///
/// At least a quarter of the slots is empty, so each probe ends.
#[derive(Debug)]
pub(super) struct Index {
    /// 0 for an empty slot, or else one more than the place.
    slots: Vec<u32>,
}

impl Index {
    const fn nr_slots(nr_places: usize) -> usize {
        (nr_places + nr_places / 3 + 2).next_power_of_two()
    }

    pub(super) const fn bytes(nr_places: usize) -> usize {
        Self::nr_slots(nr_places) * size_of::<u32>()
    }

    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            // Zeroed memory is allocated by the system only when it is used.
            slots: vec![0; Self::nr_slots(nr_places)],
        }
    }

    fn home(nr_slots: usize, key: Key) -> usize {
        key.halves()[0] as usize & (nr_slots - 1)
    }

    fn slot(&self, key: Key, key_of: impl Fn(u32) -> Option<Key>) -> Option<usize> {
        let mut at = Self::home(self.slots.len(), key);
        loop {
            let place = self.slots[at].checked_sub(1)?;
            if key_of(place) == Some(key) {
                return Some(at);
            }
            at = next_slot(&self.slots, at);
        }
    }

    pub(super) fn find(&self, key: Key, key_of: impl Fn(u32) -> Option<Key>) -> Option<u32> {
        self.slots[self.slot(key, key_of)?].checked_sub(1)
    }

    /// Adds a key, which must be missing.
    pub(super) fn insert(&mut self, key: Key, place: u32) {
        let mut at = Self::home(self.slots.len(), key);
        while self.slots[at] != 0 {
            at = next_slot(&self.slots, at);
        }
        self.slots[at] = place + 1;
    }

    /// Removes a key. `key_of` must still return the keys of all places.
    pub(super) fn remove(&mut self, key: Key, key_of: impl Fn(u32) -> Option<Key>) {
        if let Some(hole) = self.slot(key, &key_of) {
            let nr_slots = self.slots.len();
            remove_at(&mut self.slots, hole, |slot| {
                let key = key_of(slot - 1);
                debug_assert!(key.is_some(), "place {} has no key", slot - 1);
                key.map_or(0, |key| Self::home(nr_slots, key))
            });
        }
    }
}

/// Number of pages of each location that has any, with linear probing as in [`Index`].
#[derive(Debug)]
pub(super) struct Locations {
    /// 0 for an empty slot. Otherwise the high half is the hash of the location, and the low half
    /// its number of pages, which is not 0.
    slots: Vec<u64>,
}

impl Locations {
    pub(super) const fn bytes(nr_places: usize) -> usize {
        Index::nr_slots(nr_places) * size_of::<u64>()
    }

    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            slots: vec![0; Index::nr_slots(nr_places)],
        }
    }

    /// Returns the slot of a location, or an empty one for it.
    fn slot(&self, location: u32) -> usize {
        let mut at = Self::home(self.slots.len(), location);
        while self.slots[at] != 0 && Self::location(self.slots[at]) != location {
            at = next_slot(&self.slots, at);
        }
        at
    }

    fn location(slot: u64) -> u32 {
        (slot >> 32) as u32
    }

    fn home(nr_slots: usize, location: u32) -> usize {
        location as usize & (nr_slots - 1)
    }

    pub(super) fn has(&self, location: LocationHash) -> bool {
        self.slots[self.slot(u32::from_le_bytes(location.0))] != 0
    }

    pub(super) fn add(&mut self, location: LocationHash) {
        let location = u32::from_le_bytes(location.0);
        let at = self.slot(location);
        self.slots[at] = (self.slots[at] | u64::from(location) << 32) + 1;
    }

    /// Removes a page from the count of its location, which must have one.
    pub(super) fn remove(&mut self, location: LocationHash) {
        let at = self.slot(u32::from_le_bytes(location.0));
        debug_assert!(self.slots[at] != 0, "{location:?} has no pages");
        match self.slots[at] as u32 {
            0 => {}
            1 => {
                let nr_slots = self.slots.len();
                let home_of = |slot| Self::home(nr_slots, Self::location(slot));
                remove_at(&mut self.slots, at, home_of);
            }
            _ => self.slots[at] -= 1,
        }
    }
}

/// Records of evicted pages. A record may replace one of another page: the policy permits losses.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// 0 for an empty slot. Otherwise the record and, above its bits, a nonzero check value.
    slots: Vec<u64>,
}

impl Ghosts {
    /// With two slots for each place, most records survive while each place is reused once.
    const fn nr_slots(nr_places: usize) -> usize {
        (2 * nr_places).next_power_of_two()
    }

    pub(super) const fn bytes(nr_places: usize) -> usize {
        Self::nr_slots(nr_places) * size_of::<u64>()
    }

    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            slots: vec![0; Self::nr_slots(nr_places)],
        }
    }

    /// Returns the slot of a key, and its check value, shifted to its position in the slot.
    fn slot(&self, key: Key) -> (usize, u64) {
        let [first, second] = key.halves();
        let check = (first ^ second) << (Ghost::BITS + 1) | 1 << Ghost::BITS;
        (first as usize & (self.slots.len() - 1), check)
    }

    pub(super) fn insert(&mut self, key: Key, ghost: Ghost) {
        let (slot, check) = self.slot(key);
        self.slots[slot] = check | u64::from(ghost.bits());
    }

    pub(super) fn take(&mut self, key: Key) -> Option<Ghost> {
        let (slot, check) = self.slot(key);
        let word = self.slots[slot];
        if word >> Ghost::BITS != check >> Ghost::BITS {
            return None;
        }
        self.slots[slot] = 0;
        // `from_bits` ignores the check value.
        Some(Ghost::from_bits(word as u32))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Returns a key whose probe begins at slot `home`.
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

    proptest! {
        #[test]
        fn locations_have_pages_until_the_last_is_removed(
            steps in prop::collection::vec((0_u8..16, 0_u8..3, any::<bool>()), 0..200),
        ) {
            const NR_PLACES: usize = 10;
            let mut locations = Locations::new(NR_PLACES);
            let mut model: HashMap<_, usize> = HashMap::new();
            for (home, nr, is_added) in steps {
                // The first byte has the lowest bits. The hash of one location is 0.
                let location = [home, 0, 0, nr];
                let nr_pages = model.entry(location).or_default();
                if !is_added && *nr_pages > 0 {
                    *nr_pages -= 1;
                    locations.remove(LocationHash(location));
                } else if is_added && model.values().sum::<usize>() < NR_PLACES {
                    *model.entry(location).or_default() += 1;
                    locations.add(LocationHash(location));
                }
                for home in 0..16 {
                    for nr in 0..3 {
                        let location = [home, 0, 0, nr];
                        let has = model.get(&location).is_some_and(|nr_pages| *nr_pages > 0);
                        prop_assert_eq!(locations.has(LocationHash(location)), has);
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
