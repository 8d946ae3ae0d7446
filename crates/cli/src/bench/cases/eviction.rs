//! `bench eviction`: how many reads are hits, of workloads larger than the cache.
//!
//! The reads go through a real cache, with default and baseline policy, through the crate `quick_cache` with as many entries as the cache
//! has frames, and through the simulator of the default policy. All of them start empty, and get the same requests. Each round is another
//! seed.
//!
//! Workers take the requests in runs of neighbours, so that together they go through them in order. Hits write nothing, so none are
//! counted in the cache: what is no hit was read in, and that is. Pages that were read ahead count as misses, so that nothing is won by reading ahead.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pagewell::baseline::Eviction;
use pagewell::io::{Backend, FileId, RacyBytes};
use pagewell::{Cache, File};
use pagewell_frame::FRAME_BYTES;
use pagewell_sim::workload::Workload;
use pagewell_sim::{Policy, hits};

use crate::bench::crew::Speeds;
use crate::bench::plan::{Case, Cell, Settings, Trace};
use crate::failure::{Failure, chain};

const QUEUES: &str = "queues";
const CLOCK: &str = "clock";
const QUICK_CACHE: &str = "quick_cache";
const SIMULATED: &str = "simulated";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 4] = [QUEUES, CLOCK, QUICK_CACHE, SIMULATED];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 4] = [
    (QUEUES, "Pagewell, the policy that is used by default"),
    (CLOCK, "Pagewell with the baseline: one hand, a mark a page"),
    (
        QUICK_CACHE,
        "the crate, with as many entries as the cache has frames",
    ),
    (
        SIMULATED,
        "the default policy without a cache, in one thread",
    ),
];

/// The most rounds: their seeds hardly matter.
const MOST_ROUNDS: u32 = 3;

/// How many requests a worker takes at once.
const RUN: usize = 64;

/// Measures a cell: the share of hits.
pub(in crate::bench) fn run(cell: &Cell, settings: &Settings) -> Result<Speeds, Failure> {
    let size = Trace::of(settings);
    let mut of_lanes = vec![Vec::new(); ENGINES.len()];
    for seed in 0..settings.rounds.min(MOST_ROUNDS) {
        let requests = Requests::new(cell, size, u64::from(seed))?;
        for (engine, of_lane) in ENGINES.iter().zip(&mut of_lanes) {
            let nr_hits = match *engine {
                QUEUES => requests.in_cache(Eviction::Queues, size.nr_frames)?,
                CLOCK => requests.in_cache(Eviction::Clock, size.nr_frames)?,
                QUICK_CACHE => requests.in_quick_cache(size.nr_frames)?,
                _ => hits(
                    Policy::Pagewell,
                    size.nr_frames,
                    &requests.pages,
                    &mut |_| {},
                ),
            };
            of_lane.push(nr_hits as f64 / requests.pages.len() as f64);
        }
    }
    Ok(Speeds::of(of_lanes))
}

/// What is asked for, and by how many workers.
struct Requests {
    pages: Vec<u32>,
    threads: u32,
}

impl Requests {
    fn new(cell: &Cell, size: Trace, seed: u64) -> Result<Requests, Failure> {
        let workload = match cell.case {
            Case::Zipf99 => Workload::Zipf99,
            Case::Zipf70 => Workload::Zipf70,
            Case::ZipfScan => Workload::ZipfScan,
            Case::Loop => Workload::Loop,
            Case::Tree => Workload::Tree,
            other => return Err(Failure::Run(format!("{} has no workload", other.name()))),
        };
        Ok(Requests {
            pages: workload.requests(size.nr_requests, size.nr_pages, size.nr_frames, seed),
            threads: cell.threads,
        })
    }

    /// How many requests are hits in a cache.
    fn in_cache(&self, eviction: Eviction, nr_frames: usize) -> Result<u64, Failure> {
        let cache = cache_of(nr_frames, eviction)?;
        let nr_pages = self
            .pages
            .iter()
            .max()
            .map_or(0, |&page| u64::from(page) + 1);
        let open = || {
            let file = cache.open_backend(Numbered { nr_pages }, "numbered pages");
            file.map_err(|error| Failure::because("cannot open a file", chain(&error)))
        };
        // The pages go when the last handle does.
        let file = open()?;
        self.divided(|| {
            let file = open()?;
            Ok(move |page| read(&file, page))
        })?;
        let stats = cache.stats();
        drop(file);
        // More than there are requests, if much was read ahead in vain.
        Ok((self.pages.len() as u64).saturating_sub(stats.nr_fills))
    }

    /// How many requests are hits in the crate `quick_cache`.
    fn in_quick_cache(&self, nr_entries: usize) -> Result<u64, Failure> {
        let cache = quick_cache::sync::Cache::<u32, ()>::new(nr_entries);
        let nr_hits = AtomicUsize::new(0);
        self.divided(|| {
            Ok(|page| {
                match cache.get(&page) {
                    Some(()) => {
                        // ORDERING: Relaxed; read when the workers have ended.
                        nr_hits.fetch_add(1, Ordering::Relaxed);
                    }
                    None => cache.insert(page, ()),
                }
                Ok(())
            })
        })?;
        Ok(nr_hits.into_inner() as u64)
    }

    /// Hands every request to one of the workers, each of which does with it what `worker` makes.
    fn divided<W>(&self, worker: impl Fn() -> Result<W, Failure> + Sync) -> Result<(), Failure>
    where
        W: FnMut(u32) -> Result<(), Failure>,
    {
        let taken = AtomicUsize::new(0);
        let next = || -> Option<Range<usize>> {
            // ORDERING: Relaxed; each run is taken once, by atomicity.
            let from = taken.fetch_add(RUN, Ordering::Relaxed);
            (from < self.pages.len()).then(|| from..self.pages.len().min(from + RUN))
        };
        let work = || -> Result<(), Failure> {
            let mut request = worker()?;
            while let Some(run) = next() {
                for &page in &self.pages[run] {
                    request(page)?;
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            // All are waited for, whatever the first one says.
            let outcomes = workers.into_iter().map(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            outcomes.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

/// Reads the number of a page, and checks it.
fn read(file: &File, page: u32) -> Result<(), Failure> {
    let mut number = [0; 8];
    let read = file.read_at(&mut number, u64::from(page) * FRAME_BYTES as u64);
    match read {
        Ok(8) if number == u64::from(page).to_le_bytes() => Ok(()),
        Ok(n) => Err(Failure::Run(format!(
            "the cache gives {n} bytes, {number:?}, of page {page}"
        ))),
        Err(error) => Err(Failure::because("the cache has failed", chain(&error))),
    }
}

/// A cache of just so many frames.
fn cache_of(nr_frames: usize, eviction: Eviction) -> Result<Cache, Failure> {
    let mut capacity = (nr_frames * FRAME_BYTES) as u64;
    loop {
        let builder = Cache::builder().capacity(capacity).eviction(eviction);
        let cache = builder
            .build()
            .map_err(|error| Failure::because("cannot make a cache", chain(&error)))?;
        let nr = cache.stats().nr_frames;
        if nr >= nr_frames {
            return Ok(cache);
        }
        // A frame costs more than its bytes: so this is never too much.
        capacity += ((nr_frames - nr) * FRAME_BYTES) as u64;
    }
}

/// A file of pages that begin with their numbers; the rest is zeros. It is nowhere stored.
#[derive(Debug)]
struct Numbered {
    nr_pages: u64,
}

impl Backend for Numbered {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let mut pos = pos;
        let begin = pos;
        for buf in bufs {
            let mut done = 0;
            while done < buf.len() && pos < self.nr_pages * FRAME_BYTES as u64 {
                let mut page = [0; FRAME_BYTES];
                page[..8].copy_from_slice(&(pos / FRAME_BYTES as u64).to_le_bytes());
                let off = (pos % FRAME_BYTES as u64) as usize;
                let nr = (FRAME_BYTES - off).min(buf.len() - done);
                buf.copy_from(done, &page[off..off + nr]);
                done += nr;
                pos += nr as u64;
            }
        }
        Ok((pos - begin) as usize)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.nr_pages * FRAME_BYTES as u64)
    }

    fn id(&self) -> FileId {
        // The only file of its cache.
        FileId {
            device: u64::MAX,
            inode: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Trace = Trace {
        nr_requests: 30_000,
        nr_pages: 4096,
        nr_frames: 256,
    };

    fn requests(case: Case, threads: u32) -> Requests {
        let cell = Cell {
            case,
            block: FRAME_BYTES as u64,
            file_bytes: SMALL.file_bytes(case),
            threads,
            forks: 0,
        };
        Requests::new(&cell, SMALL, 1).unwrap()
    }

    #[test]
    fn a_cache_has_just_as_many_frames_as_asked_for() {
        for nr_frames in [17, 100, 1000, 1613, 16_131] {
            for eviction in [Eviction::Queues, Eviction::Clock] {
                let cache = cache_of(nr_frames, eviction).unwrap();
                assert_eq!(cache.stats().nr_frames, nr_frames);
            }
        }
    }

    #[test]
    fn every_request_is_given_to_one_worker() {
        for threads in [1, 3] {
            let requests = requests(Case::Zipf99, threads);
            let sum = AtomicUsize::new(0);
            let work = || {
                Ok(|page| {
                    // ORDERING: Relaxed; read when the workers have ended.
                    sum.fetch_add(page as usize + 1, Ordering::Relaxed);
                    Ok(())
                })
            };
            requests.divided(work).unwrap();
            let expected: usize = requests.pages.iter().map(|&page| page as usize + 1).sum();
            assert_eq!(sum.into_inner(), expected);
        }
    }

    #[test]
    fn a_workers_failure_ends_the_run() {
        let requests = requests(Case::Loop, 2);
        let outcome = requests.divided(|| {
            Ok(|page| match page {
                7 => Err(Failure::Run("page 7".to_owned())),
                _ => Ok(()),
            })
        });
        assert!(matches!(outcome, Err(Failure::Run(reason)) if reason == "page 7"));
    }

    #[test]
    fn a_cache_with_room_for_all_misses_each_page_once() {
        let requests = requests(Case::Zipf99, 1);
        let mut pages = requests.pages.clone();
        pages.sort_unstable();
        pages.dedup();
        let expected = (requests.pages.len() - pages.len()) as u64;
        for eviction in [Eviction::Queues, Eviction::Clock] {
            assert_eq!(requests.in_cache(eviction, 6000).unwrap(), expected);
        }
        assert_eq!(requests.in_quick_cache(60_000).unwrap(), expected);
    }

    #[test]
    fn a_clock_has_no_hits_in_a_loop_that_is_larger() {
        let requests = requests(Case::Loop, 1);
        assert_eq!(requests.in_cache(Eviction::Clock, 256).unwrap(), 0);
    }
}
