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
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes};
use pagewell::{Cache, File, OpenOptions, ReadAt, Writeback};

use super::cache::{Dirty, capacity_for, new_cache};
use super::engines::WAITERS_ENGINES;
use super::parts::{Part, Tally};
use super::writer::Cached;
use crate::bench::crew::{Lane, Schedule, Speeds, Watch, run_threads};
use crate::bench::data::{DataFile, Scratch};
use crate::bench::plan::{Case, Settings};
use crate::failure::{Failure, chain};
use crate::size::Bytes;

/// Number of tasks that wait for the file that hangs, and number of pages that they wait for.
const NR_TASKS: u64 = 20_000;
const NR_PAGES: u64 = 64;

/// Maximum time until the backend is asked for all pages.
const MAX_START: Duration = Duration::from_secs(20);

/// A backend whose reads wait until it is opened.
struct Hung {
    bytes: MemoryBackend,
    state: Mutex<HungState>,
    changed: Condvar,
}

#[derive(Default)]
struct HungState {
    is_open: bool,
    /// Number of bytes that the waiting reads are for.
    awaited_bytes: u64,
}

impl fmt::Debug for Hung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hung").finish_non_exhaustive()
    }
}

impl Hung {
    fn new(bytes: u64) -> Self {
        Self {
            bytes: MemoryBackend::new(vec![0; bytes as usize]),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, HungState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) {
        self.state().is_open = true;
        self.changed.notify_all();
    }

    /// Waits until reads of `bytes` bytes wait. Since the cache reads no page twice, each of these
    /// pages then has a claim, for whose end its tasks wait.
    fn wait_for_reads(&self, bytes: u64) -> Result<(), Failure> {
        let is_less = |state: &mut HungState| state.awaited_bytes < bytes;
        let waited = self
            .changed
            .wait_timeout_while(self.state(), MAX_START, is_less);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.awaited_bytes == bytes {
            return Ok(());
        }
        Err(Failure::Run(format!(
            "reads of {} bytes of the file that hangs wait, not of {bytes}",
            state.awaited_bytes
        )))
    }
}

impl Backend for Hung {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.awaited_bytes += bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        self.changed.notify_all();
        let is_hung = |state: &mut HungState| !state.is_open;
        let opened = self.changed.wait_while(state, is_hung);
        drop(opened.unwrap_or_else(PoisonError::into_inner));
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
        let hung_bytes = NR_PAGES * settings.page_size as u64;
        let hung = Arc::new(Hung::new(hung_bytes));
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
            check_waiting(&mut tasks)?;
            hung.wait_for_reads(hung_bytes)?;
            let speeds = self.write(parts, schedule, cpus, watch)?;
            check_waiting(&mut tasks)?;
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

/// Polls `tasks`, and fails unless each of them still waits.
fn check_waiting(tasks: &mut [Pin<Box<ReadAt<'_>>>]) -> Result<(), Failure> {
    let mut context = Context::from_waker(Waker::noop());
    for task in tasks {
        match task.as_mut().poll(&mut context) {
            Poll::Pending => {}
            Poll::Ready((_, Ok(_))) => {
                let done = "a read of the file that hangs is done";
                return Err(Failure::Run(done.to_owned()));
            }
            Poll::Ready((_, Err(error))) => {
                let failed = "a read of the file that hangs failed";
                return Err(Failure::because(failed, chain(&error)));
            }
        }
    }
    Ok(())
}

struct OpenOnDrop<'a>(&'a Hung);

impl Drop for OpenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}
