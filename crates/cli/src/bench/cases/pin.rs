//! `bench pin`: what it costs to pin a page that is pinned again and again, and to let go of it.
//!
//! An operation is a pair. The storage is memory, and the pages are cached all the while.

use std::hint::black_box;

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File};

use crate::bench::crew::{Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::plan::{Case, Cell};
use crate::failure::{Failure, chain};

const ANNOUNCED: &str = "announced";
const COUNTED: &str = "counted";
const COUNTED_CAS: &str = "counted-cas";
const OWNED: &str = "owned";
const OWNED_COUNTED: &str = "owned-counted";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 5] =
    [ANNOUNCED, COUNTED, COUNTED_CAS, OWNED, OWNED_COUNTED];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 3] = [
    (ANNOUNCED, COUNTED),
    (ANNOUNCED, COUNTED_CAS),
    (OWNED, OWNED_COUNTED),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 5] = [
    (
        ANNOUNCED,
        "File::pin: hot pages are pinned in a line of the thread's own",
    ),
    (
        COUNTED,
        "the baseline: each pin counts a reference, by the count with a lock bit",
    ),
    (
        COUNTED_CAS,
        "the same by the count whose try is a compare-and-swap loop",
    ),
    (
        OWNED,
        "File::pin_owned: the guard borrows nothing; hot pages are pinned as above",
    ),
    (
        OWNED_COUNTED,
        "the baseline: it counts a reference to the page, and one to the cache",
    ),
];

const PAGE: usize = 4096;

/// What each cache may hold.
const CAPACITY: u64 = 16 << 20;

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    let nr_pages = match cell.case {
        Case::OwnPages => cell.threads as usize,
        _ => 1,
    };
    // A cache each: what one engine marks is none of the others' matter.
    let announced = Pages::<Cache, _>::new(nr_pages)?;
    let counted = Pages::<Cache, _>::new(nr_pages)?;
    let counted_cas = Pages::<pagewell_cache_cas::Cache, _>::new(nr_pages)?;
    let owned = Pages::<Cache, _>::new(nr_pages)?;
    let owned_counted = Pages::<Cache, _>::new(nr_pages)?;
    let workers = (0..cell.threads as usize)
        .map(|worker| {
            let page = (worker % nr_pages) as u64;
            let lanes: Vec<Box<dyn Lane + '_>> = vec![
                Box::new(Timed::new(Announced(announced.pin(page)))),
                Box::new(Timed::new(Counted(counted.pin(page)))),
                Box::new(Timed::new(Counted(counted_cas.pin(page)))),
                Box::new(Timed::new(Owned(owned.pin(page)))),
                Box::new(Timed::new(OwnedCounted(owned_counted.pin(page)))),
            ];
            lanes
        })
        .collect();
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    announced.check(ANNOUNCED)?;
    counted.check(COUNTED)?;
    counted_cas.check(COUNTED_CAS)?;
    owned.check(OWNED)?;
    owned_counted.check(OWNED_COUNTED)?;
    Ok(speeds)
}

/// A file in a cache of its own.
struct Pages<C, F> {
    cache: C,
    file: F,
}

impl<C, F: Clone> Pages<C, F> {
    /// Workers open the file for themselves.
    fn pin(&self, page: u64) -> Pin<F> {
        Pin {
            file: self.file.clone(),
            page,
        }
    }
}

/// Page that an engine pins.
struct Pin<F> {
    file: F,
    page: u64,
}

struct Counted<F>(Pin<F>);

/// Implements the cached file and its counted pins on one copy of the cache.
macro_rules! impl_scheme {
    ($cache:ident) => {
        impl Pages<$cache::Cache, $cache::File> {
            fn new(nr_pages: usize) -> Result<Self, Failure> {
                let failed = |error| Failure::because("the cache has failed", chain(&error));
                let cache = $cache::Cache::builder().capacity(CAPACITY);
                let cache: $cache::Cache = cache.build().map_err(failed)?;
                let backend = MemoryBackend::new(vec![1; nr_pages * PAGE]);
                let file = cache.open_backend(backend, "bench").map_err(failed)?;
                Ok(Self { cache, file })
            }

            /// Checks that all pins were given back: then everything can be taken out.
            fn check(self, engine: &str) -> Result<(), Failure> {
                let Self { cache, file } = self;
                drop(file);
                let frames = cache.frames();
                let (stats, nr_marked) = (frames.pool().stats(), frames.pool().nr_marked());
                if stats.nr_available() == stats.nr_frames && nr_marked == 0 {
                    return Ok(());
                }
                Err(Failure::Run(format!(
                    "{engine} has lost a pin: {stats:?}, {nr_marked} frames are marked"
                )))
            }
        }

        impl Op for Counted<$cache::File> {
            #[inline(never)]
            fn batch(&mut self, times: u32) -> Result<(), String> {
                let (file, page) = (black_box(&self.0.file), black_box(self.0.page));
                for _ in 0..times {
                    let guard = file.pin_counted(page).map_err(|error| error.to_string())?;
                    black_box(guard.as_ptr());
                }
                Ok(())
            }
        }
    };
}

impl_scheme!(pagewell);
impl_scheme!(pagewell_cache_cas);

struct Announced(Pin<File>);

impl Op for Announced {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let (file, page) = (black_box(&self.0.file), black_box(self.0.page));
        for _ in 0..times {
            let guard = file.pin(page).map_err(|error| error.to_string())?;
            black_box(guard.as_ptr());
        }
        Ok(())
    }
}

struct Owned(Pin<File>);

impl Op for Owned {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let (file, page) = (black_box(&self.0.file), black_box(self.0.page));
        for _ in 0..times {
            let guard = file.pin_owned(page).map_err(|error| error.to_string())?;
            black_box(guard.as_ptr());
        }
        Ok(())
    }
}

struct OwnedCounted(Pin<File>);

impl Op for OwnedCounted {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let (file, page) = (black_box(&self.0.file), black_box(self.0.page));
        for _ in 0..times {
            let guard = file.pin_owned_counted(page);
            black_box(guard.map_err(|error| error.to_string())?.as_ptr());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pagewell_frame_cas::refcount::{CasLoop, RefScheme, Scheme};

    use super::*;

    #[test]
    fn second_copy_counts_by_compare_and_swap() {
        assert_eq!(Scheme::NAME, CasLoop::NAME);
    }

    #[test]
    fn every_engine_gives_back_what_it_pins() {
        let announced = Pages::<Cache, _>::new(2).unwrap();
        let counted = Pages::<pagewell_cache_cas::Cache, _>::new(2).unwrap();
        let owned = Pages::<Cache, _>::new(2).unwrap();
        for page in 0..2 {
            assert_eq!(Announced(announced.pin(page)).batch(100), Ok(()));
            assert_eq!(Counted(counted.pin(page)).batch(100), Ok(()));
            assert_eq!(Owned(owned.pin(page)).batch(100), Ok(()));
            assert_eq!(OwnedCounted(owned.pin(page)).batch(100), Ok(()));
        }
        assert!(announced.check(ANNOUNCED).is_ok());
        assert!(counted.check(COUNTED).is_ok());
        assert!(owned.check(OWNED).is_ok());
    }

    #[test]
    fn a_lost_pin_is_noticed() {
        let pages = Pages::<Cache, _>::new(1).unwrap();
        std::mem::forget(pages.file.pin(0).unwrap());
        assert!(pages.check(COUNTED).is_err());
    }
}
