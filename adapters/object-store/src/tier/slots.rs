//! Table of the pages on the disk: which page is stored in which *place* of the file of pages. A
//! place has the size of one page. If no place is free, the eviction policy of the page cache
//! selects the pages to evict; the policy treats places like frames of memory.

use std::collections::HashMap;

use pagewell_policy::{Content, Ghost, Notes, Pages, Policy, Stays};

use super::files::Entry;
use super::{Key, Sum};

const BATCH: usize = 16;

#[derive(Debug)]
pub(super) struct Slots {
    policy: Policy,
    notes: Notes,
    table: Table,
}

#[derive(Debug)]
struct Table {
    places: Vec<Option<Kept>>,
    by_key: HashMap<Key, u32>,
    free: Vec<u32>,
    /// The latest records of evicted pages, which the policy uses when a page is stored again. Both
    /// maps together have at most twice as many records as there are places.
    ghosts: HashMap<Key, Ghost>,
    ghosts_before: HashMap<Key, Ghost>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    key: Key,
    len: u32,
    sum: Sum,
    /// Whether the page was read since the policy last checked this.
    is_used: bool,
}

impl Slots {
    /// Creates the table from the log. `entries` has an element for each place of the file of
    /// pages: the page in the place, or `None` if the place is free.
    pub(super) fn new(entries: &[Option<Entry>]) -> Self {
        let notes = Notes::new(entries.len());
        let mut table = Table {
            places: vec![None; entries.len()],
            by_key: HashMap::new(),
            free: Vec::new(),
            ghosts: HashMap::new(),
            ghosts_before: HashMap::new(),
        };
        for (place, entry) in entries.iter().enumerate() {
            let place = place as u32;
            // Two places have the same key if the page was dropped and stored again, and the end of
            // the log was lost. Both contain the same page, so the second place is freed.
            let Some(entry) = entry.filter(|entry| !table.by_key.contains_key(&entry.key)) else {
                table.free.push(place);
                continue;
            };
            table.by_key.insert(entry.key, place);
            table.places[place as usize] = Some(Kept {
                key: entry.key,
                len: entry.len,
                sum: entry.sum,
                is_used: false,
            });
            notes.arrived(place, None);
        }
        Self {
            policy: Policy::new(entries.len()),
            notes,
            table,
        }
    }

    /// Returns the place, length and sum of a page, and marks it as used.
    pub(super) fn find(&mut self, key: Key) -> Option<(u32, usize, Sum)> {
        let place = *self.table.by_key.get(&key)?;
        let kept = self.table.places[place as usize].as_mut()?;
        kept.is_used = true;
        Some((place, kept.len as usize, kept.sum))
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.table.by_key.contains_key(&key)
    }

    /// Returns a place for a new page. Lookups do not find the page before the caller calls
    /// [`Self::fill`]. If no place is free, evicts pages. Returns `None` if no page can be evicted.
    pub(super) fn make_room(&mut self) -> Option<u32> {
        if self.table.free.is_empty() {
            self.policy.evict(BATCH, &self.notes, &mut self.table);
        }
        self.table.free.pop()
    }

    pub(super) fn fill(&mut self, entry: Entry) {
        let table = &mut self.table;
        let ghost = table
            .ghosts
            .remove(&entry.key)
            .or_else(|| table.ghosts_before.remove(&entry.key));
        if table.by_key.contains_key(&entry.key) {
            table.free.push(entry.place);
            return;
        }
        table.by_key.insert(entry.key, entry.place);
        table.places[entry.place as usize] = Some(Kept {
            key: entry.key,
            len: entry.len,
            sum: entry.sum,
            is_used: false,
        });
        self.notes.arrived(entry.place, ghost);
    }

    /// Frees a place whose contents are unknown or damaged.
    pub(super) fn drop_page(&mut self, place: u32) {
        if let Some(kept) = self.table.places[place as usize].take() {
            self.table.by_key.remove(&kept.key);
        }
        if !self.table.free.contains(&place) {
            self.table.free.push(place);
        }
    }

    pub(super) fn entries(&self) -> Vec<Option<Entry>> {
        let entry = |(place, kept): (usize, &Option<Kept>)| {
            kept.map(|kept| Entry {
                place: place as u32,
                len: kept.len,
                key: kept.key,
                sum: kept.sum,
            })
        };
        self.table.places.iter().enumerate().map(entry).collect()
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
        let place = self.places.get_mut(frame as usize).ok_or(Stays)?;
        let kept = place.take().ok_or(Stays)?;
        self.by_key.remove(&kept.key);
        self.free.push(frame);
        if self.ghosts.len() >= self.places.len() {
            self.ghosts_before = std::mem::take(&mut self.ghosts);
        }
        self.ghosts.insert(kept.key, ghost);
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

    #[test]
    fn places_are_bounded_and_what_is_used_stays() {
        let mut slots = Slots::new(&[None; 200]);
        let put = |slots: &mut Slots, nr| {
            let place = slots.make_room().expect("a page that goes");
            slots.fill(entry(place, nr));
        };
        for nr in 0..100 {
            put(&mut slots, nr);
        }
        // The first fifty pages are read repeatedly while other pages are stored.
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
        let entries = slots.entries();
        assert!(entries.iter().flatten().count() <= 200);
        let again = Slots::new(&entries);
        assert_eq!(again.entries(), entries);
    }

    #[test]
    fn a_place_that_is_dropped_is_free_once() {
        let mut slots = Slots::new(&[None; 2]);
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
