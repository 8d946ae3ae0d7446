//! `bench tree`: gets from the B+tree of the library's example (`examples/btree`) by four methods
//! of reading pages, and inserts into it.
//!
//! The tree is created once, in a temporary file: keys of 8 bytes in random order, with values of
//! 120 bytes. All engines read that file, by the same code, which is compiled for each method of
//! reading. Each get finds its key and checks that the value is the key's.
//!
//! An engine that reads by pins or by whole pages has no tokens. To be correct beside writers it
//! reads the log sequence number of the parent again, 8 bytes. A mapping of the file cannot be read
//! beside writers: it is the limit.

mod apart;
mod engines;
mod entries;
mod inserts;
#[cfg(feature = "peers")]
mod peers;

// What the benchmark does not call is the example's.
#[allow(dead_code, unused_imports)]
#[path = "../../../../../pagewell/examples/btree/engine/mod.rs"]
mod btree;

use std::hint::black_box;
use std::path::PathBuf;

use pagewell::{Cache, File};
use tempfile::TempDir;

pub(crate) use self::apart::EngineArgs;
pub(in crate::bench) use self::apart::engine_process;
pub(in crate::bench) use self::inserts::run as run_inserts;

use self::apart::Job;

use self::btree::{Options, Reader, Tree, Views};
use self::engines::{FromMapping, Gets, MMAP, PINS, Pins, READS, Reads, VIEWS};
use self::entries::{failed, key, value};
#[cfg(feature = "peers")]
use self::peers::{Durable, Finds, Opening, Peer, Residence};
use crate::bench::crew::{Lane, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::data::{DataFile, Mapped, Rng, Scratch};
use crate::bench::plan::{Case, Cell, Settings};
use crate::failure::Failure;

/// The engines that read, in the order of their lanes.
pub(in crate::bench) const ENGINES: &[&str] = &[
    VIEWS,
    PINS,
    READS,
    MMAP,
    #[cfg(feature = "peers")]
    Peer::Redb.name(),
    #[cfg(feature = "peers")]
    Peer::Lmdb.name(),
    #[cfg(feature = "peers")]
    Peer::Sqlite.name(),
];

/// Those that insert: writers go down by views.
pub(in crate::bench) const INSERT_ENGINES: &[&str] = &[
    VIEWS,
    #[cfg(feature = "peers")]
    Peer::Redb.name(),
    #[cfg(feature = "peers")]
    Peer::Lmdb.name(),
    #[cfg(feature = "peers")]
    Peer::Sqlite.name(),
];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: &[(&str, &str)] = &[
    (VIEWS, PINS),
    (VIEWS, READS),
    (VIEWS, MMAP),
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Redb.name()),
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Lmdb.name()),
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Sqlite.name()),
];

/// The same of inserts.
pub(in crate::bench) const INSERT_RATIOS: &[(&str, &str)] = &[
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Redb.name()),
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Lmdb.name()),
    #[cfg(feature = "peers")]
    (VIEWS, Peer::Sqlite.name()),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: &[(&str, &str)] = &[
    (
        VIEWS,
        "each page looked at where it is; a token tells whether it was the right one",
    ),
    (
        PINS,
        "each page pinned; the number of its last change read again",
    ),
    (
        READS,
        "each page copied by a read of all of it; the number of its last change read again",
    ),
    (
        MMAP,
        "the limit: each page in a mapping of the file, which nobody may change",
    ),
    #[cfg(feature = "peers")]
    (Peer::Redb.name(), "the store redb 4.6"),
    #[cfg(feature = "peers")]
    (Peer::Lmdb.name(), "the store LMDB, by heed 0.23"),
    #[cfg(feature = "peers")]
    (Peer::Sqlite.name(), "the store SQLite, by rusqlite 0.42"),
];

/// How many keys the tree has.
const FULL_KEYS: u64 = 1_000_000;
const QUICK_KEYS: u64 = 100_000;
/// About how many bytes of the file a key takes, where sizes are asked for.
const BYTES_PER_KEY: u64 = 190;
const LEAST_KEYS: u64 = 100;

/// What all cells of gets read.
pub(in crate::bench) struct Stage {
    data: DataFile,
    nr_keys: u64,
    bytes: u64,
    huge_pages: bool,
    /// The other stores, with the same entries, in the order of their lanes. The folders are gone with the stage.
    others: Vec<(&'static str, TempDir)>,
}

impl Stage {
    /// Makes the tree.
    pub(in crate::bench) fn new(
        settings: &Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Stage, Failure> {
        let nr_keys = match settings.sizes.iter().max() {
            Some(bytes) => (bytes / BYTES_PER_KEY).max(LEAST_KEYS),
            None if settings.quick => QUICK_KEYS,
            None => FULL_KEYS,
        };
        let data = scratch.make_named(0, 1, &mut note)?;
        let log = scratch.make_named(0, 1, &mut note)?;
        let cache = Cache::builder()
            .capacity(nr_keys * 700 + (64 << 20))
            .build()
            .map_err(failed)?;
        let options = Options {
            checkpoint_bytes: 1 << 30,
        };
        let tree = Tree::open(&cache, &data.path, &log.path, options).map_err(failed)?;
        for nr in 0..nr_keys {
            tree.insert(&key(nr), &value(nr)).map_err(failed)?;
        }
        let bytes = tree.data().size();
        tree.close().map_err(failed)?;
        Ok(Stage {
            others: others(&data, nr_keys)?,
            data,
            nr_keys,
            bytes,
            huge_pages: settings.huge_pages,
        })
    }

    /// What was read, for people.
    pub(in crate::bench) fn describe(&self) -> String {
        format!(
            "{} keys in {}, in {}",
            self.nr_keys,
            crate::size::Bytes(self.bytes),
            self.data.label
        )
    }

    /// The file in a cache of so many bytes, with as much of it in there as there is room for.
    fn open(&self, capacity: u64, settings: &Settings) -> Result<(Cache, File), Failure> {
        let cache = Cache::builder()
            .capacity(capacity)
            .huge_pages(settings.huge_pages())
            .build()
            .map_err(failed)?;
        let file = cache.open(&self.data.path).map_err(failed)?;
        let mut page = [0; btree::PAGE];
        // Read in; and marked as referenced.
        for _ in 0..2 {
            for at in (0..self.bytes).step_by(btree::PAGE) {
                file.read_at(&mut page, at).map_err(failed)?;
            }
        }
        Ok((cache, file))
    }

    /// Measures a cell of gets.
    pub(in crate::bench) fn run(
        &self,
        cell: &Cell,
        settings: &Settings,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        match cell.case {
            Case::Gets4x => self.run_apart(cell, settings, schedule, cpus, watch),
            _ => self.run_cached(cell, settings, schedule, cpus, watch),
        }
    }

    /// All engines in this process, each with all of its file in memory.
    fn run_cached(
        &self,
        cell: &Cell,
        settings: &Settings,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let capacity = self.bytes + self.bytes / 4 + (16 << 20);
        // A cache for each engine, so that none finds what another has read in.
        let [views, pins, reads] = [
            self.open(capacity, settings)?.1,
            self.open(capacity, settings)?.1,
            self.open(capacity, settings)?.1,
        ];
        let mapped = Mapped::new(&self.data, self.huge_pages)?;
        // All of it is at its addresses before the timing.
        for at in (0..mapped.bytes().len()).step_by(btree::PAGE) {
            black_box(mapped.bytes()[at]);
        }
        let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = (0..cell.threads)
            .map(|worker| {
                let rng = || Rng::new(u64::from(worker) + 1);
                let lanes: Vec<Box<dyn Lane + '_>> = vec![
                    Box::new(Timed::new(Gets::new(
                        Reader(Views(&views)),
                        self.nr_keys,
                        rng(),
                    ))),
                    Box::new(Timed::new(Gets::new(
                        Reader(Pins(&pins)),
                        self.nr_keys,
                        rng(),
                    ))),
                    Box::new(Timed::new(Gets::new(
                        Reader(Reads(&reads)),
                        self.nr_keys,
                        rng(),
                    ))),
                    Box::new(Timed::new(Gets::new(
                        Reader(FromMapping(mapped.bytes())),
                        self.nr_keys,
                        rng(),
                    ))),
                ];
                lanes
            })
            .collect();
        self.add_others(capacity, &mut workers)?;
        run_threads(schedule, cpus, workers, watch)
    }

    /// Each engine in a process of its own, with memory for a quarter of the tree.
    fn run_apart(
        &self,
        cell: &Cell,
        settings: &Settings,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let cache_bytes = (self.bytes / 4).max(1 << 20);
        let job = |engine: &str, path: PathBuf| Job {
            engine: engine.to_owned(),
            path,
            nr_keys: self.nr_keys,
            nr_threads: cell.threads,
            cpus: cpus.to_vec(),
            cache_bytes,
            huge_pages: self.huge_pages,
            slice: settings.seconds / settings.rounds.max(1),
        };
        let ours = [VIEWS, PINS, READS, MMAP].map(|engine| job(engine, self.data.path.clone()));
        let others = self.others.iter();
        let others = others.map(|(engine, folder)| job(engine, folder.path().to_owned()));
        let jobs: Vec<Job> = ours.into_iter().chain(others).collect();
        apart::run(&jobs, cache_bytes, schedule, watch)
    }

    /// The lanes of the other stores, each with a cache of so many bytes, behind those of each worker.
    #[cfg(feature = "peers")]
    fn add_others(
        &self,
        cache_bytes: u64,
        workers: &mut [Vec<Box<dyn Lane + '_>>],
    ) -> Result<(), Failure> {
        let nr_threads = workers.len() as u32;
        for (peer, (_, folder)) in Peer::ALL.into_iter().zip(&self.others) {
            let opening = Opening {
                // Each connection of SQLite has one of its own, and is to have room for all.
                cache_bytes: cache_bytes
                    * if peer == Peer::Sqlite {
                        u64::from(nr_threads)
                    } else {
                        1
                    },
                nr_threads,
                durable: Durable::Now,
                residence: Residence::Cached,
            };
            let store = peer.open(folder.path(), opening)?;
            for (worker, lanes) in (1..).zip(&mut *workers) {
                let mut finds = Finds::new(store.finder()?, self.nr_keys, Rng::new(worker));
                finds.find_all()?;
                lanes.push(Box::new(Timed::new(finds)));
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "peers"))]
    fn add_others(&self, _: u64, _: &mut [Vec<Box<dyn Lane + '_>>]) -> Result<(), Failure> {
        Ok(())
    }
}

/// Makes the other stores, beside the tree's file.
#[cfg(feature = "peers")]
fn others(data: &DataFile, nr_keys: u64) -> Result<Vec<(&'static str, TempDir)>, Failure> {
    let make = |peer: Peer| {
        let folder = folder_beside(data)?;
        peer.make(folder.path(), nr_keys)?;
        Ok((peer.name(), folder))
    };
    Peer::ALL.into_iter().map(make).collect()
}

#[cfg(not(feature = "peers"))]
fn others(_: &DataFile, _: u64) -> Result<Vec<(&'static str, TempDir)>, Failure> {
    Ok(Vec::new())
}

/// A temporary folder on the file system of a file.
#[cfg(feature = "peers")]
fn folder_beside(data: &DataFile) -> Result<TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("pagewell-bench-")
        .tempdir_in(data.path.parent().unwrap_or(std::path::Path::new(".")))
        .map_err(|error| Failure::because("cannot make a temporary folder", error))
}
