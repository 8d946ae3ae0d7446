//! Inserts: all threads into one tree, which is empty at first.

use pagewell::Cache;

use super::btree::{Options, Tree};
use super::entries::{failed, key, value};
use crate::bench::crew::{Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::data::Scratch;
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

/// Memory of the cache.
const CAPACITY: u64 = 256 << 20;

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
    let nr_inserted: Vec<_> = (0..cell.threads)
        .map(|_| std::sync::atomic::AtomicU64::new(0))
        .collect();
    let workers = nr_inserted
        .iter()
        .zip(0..)
        .map(|(nr_inserted, worker)| {
            let inserts = Inserts {
                tree: &tree,
                first: worker << 40,
                nr: 0,
                nr_inserted,
                then: match cell.case {
                    Case::InsertsSync => Then::Sync,
                    _ => Then::Nothing,
                },
            };
            let lanes: Vec<Box<dyn Lane + '_>> = vec![Box::new(Timed::new(inserts))];
            lanes
        })
        .collect();
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    let mut found = Vec::new();
    for (nr_inserted, worker) in nr_inserted.iter().zip(0_u64..) {
        // ORDERING: Relaxed; the threads have been joined.
        for nr in 0..nr_inserted.load(std::sync::atomic::Ordering::Relaxed) {
            let nr = (worker << 40) + nr;
            let is_there = tree.reader().get(&key(nr), &mut found).map_err(failed)?;
            if !is_there || found != value(nr) {
                return Err(failed(format_args!("key {nr} was lost")));
            }
        }
    }
    tree.close().map_err(failed)?;
    Ok(speeds)
}

/// What comes after each insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Sync,
}

/// Inserts of keys that are no other worker's.
struct Inserts<'a> {
    tree: &'a Tree,
    first: u64,
    nr: u64,
    /// Tells the number to who checks.
    nr_inserted: &'a std::sync::atomic::AtomicU64,
    then: Then,
}

impl Op for Inserts<'_> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let nr = self.first + self.nr;
            let inserted = self.tree.insert(&key(nr), &value(nr));
            let was_there = inserted.map_err(|error| error.to_string())?;
            if was_there {
                return Err(format!("key {nr} was there already"));
            }
            if self.then == Then::Sync {
                self.tree.sync().map_err(|error| error.to_string())?;
            }
            self.nr += 1;
        }
        // ORDERING: Relaxed; it is read when the threads have been joined.
        self.nr_inserted
            .store(self.nr, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}
