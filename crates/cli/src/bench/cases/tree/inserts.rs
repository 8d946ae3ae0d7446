//! Inserts: all threads into one tree, which is empty at first; and into one of each other store.

use std::sync::atomic::{AtomicU64, Ordering};

use pagewell::Cache;

use super::btree::{Options, Tree};
use super::entries::{failed, key, value};
#[cfg(feature = "peers")]
use super::peers::{Durable, Insert, Opening, Peer, Residence, Store};
use crate::bench::crew::{Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::data::Scratch;
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

/// Memory of the cache.
const CAPACITY: u64 = 256 << 20;

/// How many keys each worker has inserted.
type Inserted = Vec<AtomicU64>;

fn nothing(nr_workers: u32) -> Inserted {
    (0..nr_workers).map(|_| AtomicU64::new(0)).collect()
}

/// Measures a cell of inserts.
pub(in crate::bench) fn run(
    cell: &Cell,
    scratch: &mut Scratch,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
    mut note: impl FnMut(String),
) -> Result<Speeds, Failure> {
    let data = scratch.make_named(0, 1, &mut note)?;
    let log = scratch.make_named(0, 1, &mut note)?;
    let cache = Cache::builder()
        .capacity(CAPACITY)
        .build()
        .map_err(failed)?;
    let tree = Tree::open(&cache, &data.path, &log.path, Options::default()).map_err(failed)?;
    #[cfg(feature = "peers")]
    let others = Others::new(cell, &data)?;
    let inserted = nothing(cell.threads);
    let then = match cell.case {
        Case::InsertsSync => Then::Sync,
        _ => Then::Nothing,
    };
    let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = Vec::new();
    for (worker, nr_inserted) in (0..).zip(&inserted) {
        let into = IntoTree { tree: &tree, then };
        workers.push(vec![Box::new(Timed::new(Inserts::new(
            into,
            worker,
            nr_inserted,
        )))]);
    }
    #[cfg(feature = "peers")]
    others.add_lanes(&mut workers)?;
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    let mut found = Vec::new();
    for nr in numbers(&inserted) {
        let is_there = tree.reader().get(&key(nr), &mut found).map_err(failed)?;
        check(nr, is_there, &found).map_err(failed)?;
    }
    #[cfg(feature = "peers")]
    others.check()?;
    tree.close().map_err(failed)?;
    Ok(speeds)
}

/// The numbers of a worker's keys begin here.
fn first_of(worker: u64) -> u64 {
    worker << 40
}

/// The numbers of all keys that were inserted.
fn numbers(inserted: &Inserted) -> impl Iterator<Item = u64> {
    (0..).zip(inserted).flat_map(|(worker, nr)| {
        // ORDERING: Relaxed; the threads have been joined.
        let nr = nr.load(Ordering::Relaxed);
        first_of(worker)..first_of(worker) + nr
    })
}

fn check(nr: u64, is_there: bool, found: &[u8]) -> Result<(), String> {
    if is_there && found == value(nr) {
        return Ok(());
    }
    Err(format!("key {nr} was lost"))
}

/// What is inserted into.
trait Target: Send {
    /// Puts an entry in; whether its key was there.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String>;
}

/// What comes after each insert into the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Sync,
}

struct IntoTree<'a> {
    tree: &'a Tree,
    then: Then,
}

impl Target for IntoTree<'_> {
    #[inline(always)]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let was_there = self
            .tree
            .insert(key, value)
            .map_err(|error| error.to_string())?;
        if self.then == Then::Sync {
            self.tree.sync().map_err(|error| error.to_string())?;
        }
        Ok(was_there)
    }
}

/// Inserts of keys that are no other worker's.
struct Inserts<'a, I> {
    into: I,
    first: u64,
    nr: u64,
    /// Tells the number to who checks.
    nr_inserted: &'a AtomicU64,
}

impl<'a, I> Inserts<'a, I> {
    fn new(into: I, worker: u64, nr_inserted: &'a AtomicU64) -> Self {
        Inserts {
            into,
            first: first_of(worker),
            nr: 0,
            nr_inserted,
        }
    }
}

impl<I: Target> Op for Inserts<'_, I> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let nr = self.first + self.nr;
            if self.into.insert(&key(nr), &value(nr))? {
                return Err(format!("key {nr} was there already"));
            }
            self.nr += 1;
        }
        // ORDERING: Relaxed; it is read when the threads have been joined.
        self.nr_inserted.store(self.nr, Ordering::Relaxed);
        Ok(())
    }
}

/// The other stores.
#[cfg(feature = "peers")]
struct Others(Vec<Other>);

#[cfg(feature = "peers")]
struct Other {
    store: Box<dyn Store>,
    inserted: Inserted,
    /// Gone with this.
    _folder: tempfile::TempDir,
}

#[cfg(feature = "peers")]
impl Target for Box<dyn Insert> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String> {
        (**self).insert(key, value)
    }
}

#[cfg(feature = "peers")]
impl Others {
    /// Makes them, empty, beside a file.
    fn new(cell: &Cell, beside: &crate::bench::data::DataFile) -> Result<Others, Failure> {
        let opening = Opening {
            cache_bytes: CAPACITY,
            nr_threads: cell.threads,
            durable: match cell.case {
                Case::InsertsSync => Durable::Now,
                _ => Durable::Later,
            },
            residence: Residence::Cached,
        };
        let make = |peer: Peer| {
            let folder = super::folder_beside(beside)?;
            Ok(Other {
                store: peer.open(folder.path(), opening)?,
                inserted: nothing(cell.threads),
                _folder: folder,
            })
        };
        let others: Result<_, Failure> = Peer::ALL.into_iter().map(make).collect();
        Ok(Others(others?))
    }

    /// Adds their lanes, behind those of each worker.
    fn add_lanes<'o>(&'o self, workers: &mut [Vec<Box<dyn Lane + 'o>>]) -> Result<(), Failure> {
        for other in &self.0 {
            for ((worker, lanes), nr_inserted) in (0..).zip(&mut *workers).zip(&other.inserted) {
                let into = other.store.writer()?;
                let inserts = Inserts::new(into, worker, nr_inserted);
                lanes.push(Box::new(Timed::new(inserts)));
            }
        }
        Ok(())
    }

    /// Looks for each key.
    fn check(&self) -> Result<(), Failure> {
        for other in &self.0 {
            let mut found = Vec::new();
            let mut finder = other.store.finder()?;
            let checked = finder.with(&mut |lookup| {
                numbers(&other.inserted).try_for_each(|nr| {
                    let is_there = lookup(&key(nr), &mut found)?;
                    check(nr, is_there, &found)
                })
            });
            checked.map_err(failed)?;
        }
        Ok(())
    }
}
