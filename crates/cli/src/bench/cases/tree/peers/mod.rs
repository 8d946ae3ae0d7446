//! The stores that a program would take otherwise: redb, LMDB (by `heed`) and SQLite (by `rusqlite`), each with the settings that its documentation
//! has for the work at hand. `docs/benchmarks.md` says which.
//!
//! All keep the same entries as the tree: keys and values are bytes. Readers have one transaction for all of a cell's gets, as these stores like it best; each
//! insert is a transaction of its own, as it is for the tree.

mod lmdb;
mod redb;
mod sqlite;
mod store;

use std::hint::black_box;
use std::path::Path;

pub(super) use self::store::{Durable, Find, Insert, Opening, Residence, Store};

use self::store::{Lookup, failed};
use super::entries::{VALUE, key};
use crate::bench::crew::Op;
use crate::bench::data::Rng;
use crate::failure::Failure;

/// One of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Redb,
    Lmdb,
    Sqlite,
}

impl Peer {
    pub(super) const ALL: [Peer; 3] = [Peer::Redb, Peer::Lmdb, Peer::Sqlite];

    /// Its name as an engine.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Peer::Redb => "redb",
            Peer::Lmdb => "lmdb",
            Peer::Sqlite => "sqlite",
        }
    }

    /// Opens the store in a folder of its own, and makes it if there is none.
    pub(super) fn open(self, folder: &Path, opening: Opening) -> Result<Box<dyn Store>, Failure> {
        let opened: Result<Box<dyn Store>, Failure> = match self {
            Peer::Redb => redb::Redb::open(folder, opening).map(|store| Box::new(store) as _),
            Peer::Lmdb => lmdb::Lmdb::open(folder, opening).map(|store| Box::new(store) as _),
            Peer::Sqlite => sqlite::Sqlite::open(folder, opening).map(|store| Box::new(store) as _),
        };
        opened.map_err(|failure| match failure {
            Failure::Run(reason) => Failure::because(self.name(), reason),
            other => other,
        })
    }

    /// Makes a store with so many entries, and closes it.
    pub(super) fn make(self, folder: &Path, nr_keys: u64) -> Result<(), Failure> {
        const AT_ONCE: u64 = 100_000;
        let store = self.open(
            folder,
            Opening {
                cache_bytes: 256 << 20,
                nr_threads: 1,
                durable: Durable::Now,
                residence: Residence::Cached,
            },
        )?;
        let mut first = 0;
        while first < nr_keys {
            let end = nr_keys.min(first + AT_ONCE);
            store.fill(first..end)?;
            first = end;
        }
        Ok(())
    }
}

/// Gets of random keys, all of which are there: as [`Gets`](super::engines::Gets) of the tree.
pub(super) struct Finds {
    finder: Box<dyn Find>,
    nr_keys: u64,
    rng: Rng,
    value: Vec<u8>,
}

impl Finds {
    pub(super) fn new(finder: Box<dyn Find>, nr_keys: u64, rng: Rng) -> Finds {
        Finds {
            finder,
            nr_keys,
            rng,
            value: Vec::with_capacity(VALUE),
        }
    }

    /// Finds each key once, so that all of the store that has room in memory is there.
    pub(super) fn find_all(&mut self) -> Result<(), Failure> {
        let Finds { finder, value, .. } = self;
        let found =
            finder.with(&mut |lookup| (0..self.nr_keys).try_for_each(|nr| find(lookup, nr, value)));
        found.map_err(failed)
    }
}

/// Looks for the key with this number, and whether the value is the right one.
#[inline(always)]
fn find(lookup: &mut Lookup<'_>, nr: u64, value: &mut Vec<u8>) -> Result<(), String> {
    let key = black_box(key(nr));
    let is_there = lookup(&key, value)?;
    if is_there && value.len() == VALUE && value[..8] == nr.to_le_bytes() {
        return Ok(());
    }
    Err(format!("key {nr} has another value, or none"))
}

impl Op for Finds {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let Finds {
            finder,
            nr_keys,
            rng,
            value,
        } = self;
        finder.with(&mut |lookup| {
            (0..times).try_for_each(|_| find(lookup, rng.below(*nr_keys), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::value;
    use super::*;

    #[test]
    fn each_store_finds_what_was_put_in_and_nothing_else() {
        for peer in Peer::ALL {
            for durable in [Durable::Now, Durable::Later] {
                let folder = tempfile::tempdir().unwrap();
                peer.make(folder.path(), 1000).unwrap();
                let opening = Opening {
                    cache_bytes: 1 << 20,
                    nr_threads: 2,
                    durable,
                    residence: Residence::Partly,
                };
                let store = peer.open(folder.path(), opening).unwrap();
                let mut writer = store.writer().unwrap();
                assert!(!writer.insert(&key(1000), &value(1000)).unwrap());
                assert!(writer.insert(&key(1000), &value(1000)).unwrap());
                let mut finder = store.finder().unwrap();
                let mut found = Vec::new();
                finder
                    .with(&mut |lookup| {
                        for nr in 0..=1000 {
                            assert!(lookup(&key(nr), &mut found)?, "{peer:?}: {nr}");
                            assert_eq!(found, value(nr));
                        }
                        assert!(!lookup(&key(1001), &mut found)?);
                        Ok(())
                    })
                    .unwrap();
            }
        }
    }
}
