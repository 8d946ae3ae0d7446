//! Writes of cached pages while tasks wait for another file of the cache, whose backend hangs.
//!
//! Both engines are the cache's `write_at` to files of their own in caches of their own; in the
//! second cache, [`NR_TASKS`] reads of [`NR_PAGES`] pages of a file wait whose backend does not
//! answer. So few awaited words rarely share a filter bit with a written one
//! (`pagewell_sync::parking`).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes};
use pagewell::{Cache, File, OpenOptions, Writeback};

use super::cache::{Dirty, new_cache};
use super::engines::WAITERS_ENGINES;
use super::parts::{Part, Tally};
use super::stage::capacity_for;
use super::writer::Cached;
use crate::bench::crew::{Lane, Schedule, Speeds, Watch, run_threads};
use crate::bench::data::{DataFile, Scratch};
use crate::bench::plan::{Case, Settings};
use crate::failure::{Failure, chain};
use crate::size::Bytes;

/// Number of tasks that wait for the file that hangs, and number of pages that they wait for.
const NR_TASKS: u64 = 20_000;
const NR_PAGES: u64 = 64;

/// A backend whose reads wait until it is opened.
struct Hung {
    bytes: MemoryBackend,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl fmt::Debug for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hung").finish_non_exhaustive()
    }
}

impl Hung {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }
}

impl Backend for Hung {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = self
            .opened
            .wait_while(is_open, |is_open| !*is_open)
            .unwrap_or_else(PoisonError::into_inner);
        drop(is_open);
        self.bytes.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }

    fn id(&self) -> FileId {
        self.bytes.id()
    }
}

/// A file written through a cache of its own.
struct Subject {
    data: DataFile,
    file: File,
    cache: Cache,
}

impl Subject {
    fn new(data: DataFile, capacity: u64, settings: &Settings) -> Result<Self, Failure> {
        let cannot = |error| Failure::because("cannot make a cache", chain(&error));
        let cache = new_cache(capacity, Dirty::Most, settings)?;
        // Nothing is written back before the check.
        let options = OpenOptions::new().write().writeback(Writeback::Manual);
        let file = cache.open_with(&data.path, &options).map_err(cannot)?;
        let mut buf = vec![0; 1 << 20];
        let mut at = 0;
        while at < data.bytes {
            at += file.read_at(&mut buf, at).map_err(cannot)?.max(1) as u64;
        }
        Ok(Self { data, file, cache })
    }
}

/// A file for each of [`WAITERS_ENGINES`].
pub(super) struct BesideWaiters([Subject; WAITERS_ENGINES.len()]);

impl BesideWaiters {
    pub(super) fn new(
        file_bytes: u64,
        settings: &Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Self, Failure> {
        // All of the file may be dirty, and the pages that tasks wait for need room too.
        let needed = capacity_for(file_bytes) + NR_PAGES * settings.page_size as u64 * 4;
        let capacity = settings.capacity.unwrap_or(needed).max(needed);
        if settings.capacity.is_some_and(|asked| asked < needed) {
            let name = Case::WriteBesideWaiters.name();
            note(format!("{name} needs caches of {}", Bytes(capacity)));
        }
        let mut subject = |seed| {
            let data = scratch.make_named(file_bytes, seed, &mut note)?;
            Subject::new(data, capacity, settings)
        };
        Ok(Self([subject(1)?, subject(2)?]))
    }

    /// The file of the first engine; the others have as many bytes.
    pub(super) fn data(&self) -> &DataFile {
        let Self([alone, _]) = self;
        &alone.data
    }

    /// Measures the writes of `parts`, one for each worker.
    pub(super) fn run(
        &self,
        parts: &[Part],
        settings: &Settings,
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let Self([_, beside]) = self;
        let hung = Arc::new(Hung {
            bytes: MemoryBackend::new(vec![0; NR_PAGES as usize * settings.page_size]),
            is_open: Mutex::new(false),
            opened: Condvar::new(),
        });
        let file = beside
            .cache
            .open_backend(Arc::clone(&hung), "a file that hangs")
            .map_err(|error| Failure::because("cannot open the file that hangs", chain(&error)))?;
        let speeds = {
            let mut tasks: Vec<_> = (0..NR_TASKS)
                .map(|nr| {
                    let page = nr % NR_PAGES;
                    Box::pin(file.read_at_async(vec![0], page * settings.page_size as u64))
                })
                .collect();
            // Opens the backend on each return, before the tasks and the file are dropped.
            let _open = OpenOnDrop(&hung);
            if !tasks.iter_mut().all(|task| is_pending(task.as_mut())) {
                return Err(Failure::Run(
                    "a read of the file that hangs is done".to_owned(),
                ));
            }
            let speeds = self.write(parts, schedule, cpus, watch)?;
            if !tasks.iter_mut().all(|task| is_pending(task.as_mut())) {
                return Err(Failure::Run(
                    "a read of the file that hangs is done".to_owned(),
                ));
            }
            speeds
        };
        drop(file);
        for subject in &self.0 {
            subject
                .cache
                .verify()
                .map_err(|error| Failure::because("the cache is broken", error))?;
        }
        Ok(speeds)
    }

    fn write(
        &self,
        parts: &[Part],
        schedule: &Schedule,
        cpus: &[usize],
        watch: Watch<'_>,
    ) -> Result<Speeds, Failure> {
        let Self(subjects) = self;
        let tallies: Vec<[Tally; WAITERS_ENGINES.len()]> =
            parts.iter().map(|_| Default::default()).collect();
        let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = Vec::new();
        for (part, tallies) in parts.iter().zip(&tallies) {
            let lanes = subjects.iter().zip(tallies);
            workers.push(
                lanes
                    .map(|(subject, tally)| {
                        part.lane(Cached::new(subject.file.clone(), part.start), tally)
                    })
                    .collect(),
            );
        }
        let speeds = run_threads(schedule, cpus, workers, watch)?;
        for (nr, (engine, subject)) in WAITERS_ENGINES.iter().zip(subjects).enumerate() {
            subject
                .file
                .sync_data()
                .map_err(|error| Failure::because("cannot sync", chain(&error)))?;
            for (part, tallies) in parts.iter().zip(&tallies) {
                part.check(&subject.data, &tallies[nr])
                    .map_err(|reason| Failure::because(engine, reason))?;
            }
        }
        Ok(speeds)
    }
}

fn is_pending(task: Pin<&mut impl Future>) -> bool {
    matches!(
        task.poll(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    )
}

struct OpenOnDrop<'a>(&'a Hung);

impl Drop for OpenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
