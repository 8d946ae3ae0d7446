//! Cached and durable content of one file, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{Image, Sector, parts};
use super::rng::Rng;

/// Atomicity of an unsynced write to one sector (512 bytes) in a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectorWrites {
    /// Either all bytes of the write survive a crash, or none, as on real devices.
    #[default]
    Whole,
    /// A prefix of the sector may survive without the rest.
    Torn,
}

#[derive(Debug, Default)]
pub(super) struct Content {
    cached: Image,
    /// Content after a loss of power, if none of `changes` survives.
    durable: Image,
    /// Unsynced changes, in order.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Size(u64),
    /// Number of the sector, and all of its bytes after the change.
    Sector(u64, Box<Sector>),
}

/// Effect of a failed sync on a changed sector, which is clean afterwards.
#[derive(Clone, Copy)]
enum Abandoned {
    Written,
    Kept,
    Dropped,
}

impl Content {
    fn settled(image: Image) -> Self {
        Self {
            cached: image.clone(),
            durable: image,
            changes: Vec::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.cached.size()
    }

    pub(super) fn read(&self, pos: u64, len: usize) -> Vec<u8> {
        self.cached.read(pos, len)
    }

    pub(super) fn write(&mut self, pos: u64, bytes: &[u8]) {
        let size = self.cached.size();
        self.cached.write(pos, bytes);
        if self.cached.size() != size {
            self.changes.push(Change::Size(self.cached.size()));
        }
        for (nr, _, _) in parts(pos, bytes.len()) {
            let sector = Box::new(self.cached.get(nr));
            self.changes.push(Change::Sector(nr, sector));
        }
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.cached.set_size(size);
        self.changes.push(Change::Size(size));
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Change::Size(size) => self.durable.set_size(size),
                Change::Sector(nr, sector) => self.durable.put(nr, *sector),
            }
        }
        self.durable.trim();
    }

    /// Discards the recorded changes of sectors, and keeps changes of the size for the next sync.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let (mut sizes, mut changed) = (Vec::new(), BTreeSet::new());
        for change in self.changes.drain(..) {
            match change {
                Change::Size(_) => sizes.push(change),
                Change::Sector(nr, _) => {
                    changed.insert(nr);
                }
            }
        }
        self.changes = sizes;
        // Content that the system reads from the device again, with the size changes applied.
        let mut reread = self.durable.clone();
        for change in &self.changes {
            if let Change::Size(size) = change {
                reread.set_size(*size);
            }
        }
        for nr in changed {
            match [Abandoned::Written, Abandoned::Kept, Abandoned::Dropped][rng.below(3)] {
                Abandoned::Written => self.durable.put(nr, self.cached.get(nr)),
                Abandoned::Kept => {}
                Abandoned::Dropped => self.cached.put(nr, reread.get(nr)),
            }
        }
        self.durable.trim();
        self.cached.trim();
    }

    /// Returns a random result of a crash at this moment.
    pub(super) fn survivors(&self, writes: SectorWrites, rng: &mut Rng) -> Self {
        // The probability of survival is random, so that a crash may keep none or all changes.
        let quarters = rng.below(5);
        let last = self.last_written(quarters, rng);
        let mut image = self.durable.clone();
        for (at, change) in self.changes.iter().enumerate() {
            match change {
                Change::Size(size) => {
                    if rng.chance(quarters) {
                        image.set_size(*size);
                    }
                }
                Change::Sector(nr, sector) if last.get(nr) == Some(&at) => {
                    let mut survivor = **sector;
                    if writes == SectorWrites::Torn && rng.chance(1) {
                        let torn_at = rng.below(survivor.len());
                        survivor[torn_at..].copy_from_slice(&image.get(*nr)[torn_at..]);
                    }
                    image.put(*nr, survivor);
                }
                Change::Sector(..) => {}
            }
        }
        image.trim();
        Self::settled(image)
    }

    /// Maps each sector with a surviving change to the index of the last such change.
    fn last_written(&self, quarters: usize, rng: &mut Rng) -> BTreeMap<u64, usize> {
        let mut changes = BTreeMap::<u64, Vec<usize>>::new();
        for (at, change) in self.changes.iter().enumerate() {
            if let Change::Sector(nr, _) = change {
                changes.entry(*nr).or_default().push(at);
            }
        }
        changes
            .into_iter()
            .filter_map(|(nr, places)| {
                let survives = rng.chance(quarters);
                survives.then(|| (nr, places[rng.below(places.len())]))
            })
            .collect()
    }
}
