//! Table of the pages on the disk: which page is in which *place* of the file. If no place is free,
//! the eviction policy of the page cache, for which places are frames, selects pages to evict.
//!
//! The memory is at most [`Slots::bytes`]. Most of it is allocated only when places are used.

use pagewell_policy::{Content, Ghost, Notes, Pages, Policy, Stays};

use super::files::Entry;
use super::lookup::{Ghosts, Index, Locations};
use super::{Key, LocationHash, Sum};

const BATCH: usize = 16;

#[derive(Debug)]
pub(super) struct Slots {
    policy: Policy,
    notes: Notes,
    table: Table,
}

#[derive(Debug)]
struct Table {
    /// Contents of all places up to the highest number that was used so far.
    places: Vec<Option<Kept>>,
    nr_places: usize,
    by_key: Index,
    locations: Locations,
    /// Free places among `places`.
    free: Vec<u32>,
    /// Records of evicted pages, which the policy gets when such a page is stored again.
    ghosts: Ghosts,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    key: Key,
    len: u32,
    sum: Sum,
    /// Accessed bit: whether the page was read since the policy last cleared the bit.
    is_used: bool,
}

impl Slots {
    /// Returns the maximum memory in bytes.
    pub(super) const fn bytes(nr_places: usize) -> usize {
        nr_places * (size_of::<Option<Kept>>() + size_of::<u32>())
            + Index::bytes(nr_places)
            + Locations::bytes(nr_places)
            + Ghosts::bytes(nr_places)
            + Policy::bytes(nr_places)
    }

    pub(super) fn new(nr_places: usize) -> Self {
        Self {
            policy: Policy::new(nr_places),
            notes: Notes::new(nr_places),
            table: Table {
                places: Vec::with_capacity(nr_places),
                nr_places,
                by_key: Index::new(nr_places),
                locations: Locations::new(nr_places),
                free: Vec::with_capacity(nr_places),
                ghosts: Ghosts::new(nr_places),
            },
        }
    }

    /// Adds an entry of the log, which replaces earlier ones of its place. The caller must call
    /// [`Self::restored`] after the last entry.
    pub(super) fn restore(&mut self, entry: Entry) {
        let table = &mut self.table;
        let place = entry.place as usize;
        if place >= table.nr_places {
            return;
        }
        if table.places.len() <= place {
            table.places.resize(place + 1, None);
        }
        table.clear(entry.place);
        if entry.len == 0 {
            return;
        }
        // Evictions and drops are not logged. So two places have the same key if a page left one,
        // was then stored in another, and the first was not reused. The later entry is valid.
        if let Some(other) = table.find(entry.key) {
            table.clear(other);
        }
        table.set(entry);
    }

    pub(super) fn restored(&mut self) {
        for (place, kept) in (0..).zip(&self.table.places) {
            match kept {
                Some(_) => self.notes.arrived(place, None),
                None => self.table.free.push(place),
            }
        }
    }

    /// Returns the place, length and sum of a page, and sets its accessed bit.
    pub(super) fn find(&mut self, key: Key) -> Option<(u32, usize, Sum)> {
        let place = self.table.find(key)?;
        let kept = self.table.places[place as usize].as_mut()?;
        kept.is_used = true;
        Some((place, kept.len as usize, kept.sum))
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.table.find(key).is_some()
    }

    pub(super) fn has_location(&self, location: LocationHash) -> bool {
        self.table.locations.has(location)
    }

    /// Returns a place for a new page, which lookups find after [`Self::fill`]. If no place is
    /// free, evicts pages, and returns `None` if none can be evicted.
    pub(super) fn make_room(&mut self) -> Option<u32> {
        let table = &mut self.table;
        if table.free.is_empty() {
            if table.places.len() < table.nr_places {
                table.places.push(None);
                return Some(table.places.len() as u32 - 1);
            }
            self.policy.evict(BATCH, &self.notes, table);
        }
        self.table.free.pop()
    }

    pub(super) fn fill(&mut self, entry: Entry) {
        let table = &mut self.table;
        let ghost = table.ghosts.take(entry.key);
        if table.find(entry.key).is_some() {
            table.free.push(entry.place);
            return;
        }
        table.set(entry);
        self.notes.arrived(entry.place, ghost);
    }

    /// Frees a place from [`Self::make_room`] that was not filled.
    pub(super) fn free_unfilled(&mut self, place: u32) {
        self.table.free.push(place);
    }

    /// Removes the page of a place, if it has one, and frees the place.
    pub(super) fn drop_page(&mut self, place: u32) {
        if self.table.clear(place).is_some() {
            self.table.free.push(place);
        }
    }

    /// Returns the contents of up to `nr` places from `start` on.
    pub(super) fn entries(&self, start: usize, nr: usize) -> Vec<Entry> {
        let entry = |(place, kept): (usize, &Option<Kept>)| {
            kept.map(|kept| Entry {
                place: place as u32,
                len: kept.len,
                key: kept.key,
                sum: kept.sum,
            })
        };
        let places = self.table.places.iter().enumerate();
        places.skip(start).take(nr).filter_map(entry).collect()
    }
}

impl Table {
    fn find(&self, key: Key) -> Option<u32> {
        self.by_key.find(key, |place| self.key(place))
    }

    fn key(&self, place: u32) -> Option<Key> {
        Some(self.places.get(place as usize)?.as_ref()?.key)
    }

    /// Records a page in an empty place. The page must be in no other place.
    fn set(&mut self, entry: Entry) {
        self.places[entry.place as usize] = Some(Kept {
            key: entry.key,
            len: entry.len,
            sum: entry.sum,
            is_used: false,
        });
        self.by_key.insert(entry.key, entry.place);
        self.locations.add(entry.key.location());
    }

    /// Removes the page of a place, and returns its key.
    fn clear(&mut self, place: u32) -> Option<Key> {
        let key = self.key(place)?;
        let places = &self.places;
        self.by_key
            .remove(key, |place| Some(places.get(place as usize)?.as_ref()?.key));
        self.locations.remove(key.location());
        self.places[place as usize] = None;
        Some(key)
    }
}

impl Pages for Table {
    fn content(&mut self, frame: u32) -> Content {
        match self.places.get(frame as usize) {
            Some(Some(_)) => Content::Page(1),
            _ => Content::Nothing,
        }
    }

    fn take_mark(&mut self, frame: u32) -> bool {
        let kept = self.places.get_mut(frame as usize).and_then(Option::as_mut);
        kept.is_some_and(|kept| std::mem::take(&mut kept.is_used))
    }

    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays> {
        let key = self.clear(frame).ok_or(Stays)?;
        self.free.push(frame);
        self.ghosts.insert(key, ghost);
        Ok(())
    }

    fn prefetch(&mut self, _: u32, _: u8) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(place: u32, nr: u32) -> Entry {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&nr.to_le_bytes());
        Entry {
            place,
            len: 1,
            key: Key(key),
            sum: Sum([0; 16]),
        }
    }

    fn restored(nr_places: usize, log: &[Entry]) -> Slots {
        let mut slots = Slots::new(nr_places);
        log.iter().for_each(|entry| slots.restore(*entry));
        slots.restored();
        slots
    }

    #[test]
    fn places_are_bounded_and_what_is_used_stays() {
        let mut slots = Slots::new(200);
        let put = |slots: &mut Slots, nr| {
            let place = slots.make_room().expect("a page that goes");
            slots.fill(entry(place, nr));
        };
        for nr in 0..100 {
            put(&mut slots, nr);
        }
        // Read the first fifty pages repeatedly while other pages are stored.
        for nr in 1000..3000 {
            if nr % 20 == 0 {
                for hot in 0..50 {
                    slots.find(entry(0, hot).key);
                }
            }
            put(&mut slots, nr);
        }
        let nr_hot = (0..50).filter(|nr| slots.has(entry(0, *nr).key)).count();
        assert!(nr_hot > 40, "{nr_hot}");
        let entries = slots.entries(0, usize::MAX);
        assert!(entries.len() <= 200);
        let again = restored(200, &entries);
        assert_eq!(again.entries(0, usize::MAX), entries);
        let parts = [again.entries(0, 64), again.entries(64, 200)];
        assert_eq!(parts.concat(), entries);
    }

    #[test]
    fn the_memory_of_a_table_has_a_bound() {
        for nr_places in [1, 2, 100, 768, 769, 4096] {
            let mut slots = Slots::new(nr_places);
            for nr in 0..4 * nr_places as u32 + 100 {
                let place = slots.make_room().expect("a page that goes");
                slots.fill(entry(place, nr));
                if nr % 3 == 0 {
                    slots.drop_page(place);
                }
            }
            let table = &slots.table;
            assert!(table.places.len() <= nr_places);
            let bytes = table.places.capacity() * size_of::<Option<Kept>>()
                + table.free.capacity() * size_of::<u32>()
                + Index::bytes(nr_places)
                + Locations::bytes(nr_places)
                + Ghosts::bytes(nr_places)
                + Policy::bytes(nr_places);
            assert_eq!(bytes, Slots::bytes(nr_places));
        }
    }

    #[test]
    fn the_last_entry_of_a_place_and_of_a_key_is_valid() {
        let emptied = Entry {
            len: 0,
            ..entry(3, 0)
        };
        let log = [
            entry(1, 1),
            entry(3, 3),
            entry(1, 2),
            entry(5, 2),
            emptied,
            entry(8, 4),
        ];
        let mut slots = restored(8, &log);
        assert_eq!(slots.entries(0, usize::MAX), [entry(5, 2)]);
        let mut free: Vec<_> = (0..7).map(|_| slots.make_room().unwrap()).collect();
        free.sort_unstable();
        assert_eq!(free, [0, 1, 2, 3, 4, 6, 7]);
        assert_eq!(
            slots.find(entry(0, 2).key).map(|(place, ..)| place),
            Some(5)
        );
    }

    #[test]
    fn a_place_that_is_dropped_is_free_once() {
        let mut slots = Slots::new(2);
        let place = slots.make_room().unwrap();
        slots.fill(entry(place, 1));
        slots.drop_page(place);
        slots.drop_page(place);
        assert!(!slots.has(entry(0, 1).key));
        let both = [slots.make_room().unwrap(), slots.make_room().unwrap()];
        assert_ne!(both[0], both[1]);
        assert_eq!(slots.make_room(), None);
    }
}
