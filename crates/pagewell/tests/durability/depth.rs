//! Many requests on their way to the storage at once: nothing is lost whatever the order in which they are done, and whatever fails.

use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pagewell::io::engine::{Choice, Deferred, Kind, Request, Settings};
use pagewell::io::{Backend, Direct, FileId, MemoryBackend, RacyBytes, RacySource, Transfers};
use pagewell::{Cache, ErrorKind, File, OpenOptions};
use pagewell_testkit::content::content;
use pagewell_testkit::scratch;
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::bounded_by;

use crate::storage::{EIO, contents, errno, manual, stored};
use crate::support::PAGE;

/// A storage that takes requests and completes them later, the last one first.
#[derive(Debug)]
struct Later {
    inner: MemoryBackend,
    queue: Mutex<Vec<Request>>,
    /// The most writes that it has had at once.
    most: AtomicUsize,
    nr_writes: AtomicUsize,
    /// Where writes fail.
    fails: Mutex<HashSet<u64>>,
    /// Whether writes complete with a byte too few, which is not written.
    is_short: AtomicBool,
}

impl Later {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryBackend::writable(bytes),
            queue: Mutex::default(),
            most: AtomicUsize::new(0),
            nr_writes: AtomicUsize::new(0),
            fails: Mutex::default(),
            is_short: AtomicBool::new(false),
        })
    }

    fn fail(&self, pos: u64) -> io::Result<()> {
        if self.fails.lock().unwrap().contains(&pos) {
            return Err(errno(EIO));
        }
        Ok(())
    }

    fn perform(&self, request: &Request) -> io::Result<usize> {
        match request.kind() {
            Kind::Read => self.inner.read_at(&request.buffers(), request.pos()),
            Kind::Write if self.is_short.load(Ordering::Relaxed) => Ok(request.nr_left() - 1),
            Kind::Write => {
                self.write_at(&request.sources(), request.pos())?;
                Ok(request.nr_left())
            }
            Kind::SetSize(size) => self.inner.set_size(size).map(|()| 0),
            _ => self.inner.sync_data().map(|()| 0),
        }
    }

    /// Completes requests, as long as `work` lasts: now and then all that there are.
    fn serve<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) || !self.queue.lock().unwrap().is_empty() {
                    std::thread::sleep(Duration::from_millis(1));
                    let requests = std::mem::take(&mut *self.queue.lock().unwrap());
                    let is_write = |request: &&Request| request.kind() == Kind::Write;
                    let nr_writes = requests.iter().filter(is_write).count();
                    self.most.fetch_max(nr_writes, Ordering::Relaxed);
                    for request in requests.into_iter().rev() {
                        let result = self.perform(&request);
                        request.complete(result);
                    }
                }
            });
            let result = catch_unwind(AssertUnwindSafe(work));
            is_over.store(true, Ordering::Relaxed);
            server.join().unwrap();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Deferred for Later {
    fn start(&self, request: Request) {
        self.queue.lock().unwrap().push(request);
    }
}

impl Backend for Later {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.inner.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.nr_writes.fetch_add(1, Ordering::Relaxed);
        self.fail(pos)?;
        self.inner.write_at(bufs, pos)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }

    fn deferred(&self) -> Option<&dyn Deferred> {
        Some(self)
    }
}

/// How many pages the tests write, each with a gap behind it.
const RUNS: usize = 100;

fn cache(choice: Choice) -> Cache {
    let builder = Cache::builder().capacity(4 << 20);
    builder.engine(Settings::new(choice)).build().unwrap()
}

/// Writes every other page of `file`; returns the bytes that it has then.
fn write_runs(file: &File, mut bytes: Vec<u8>) -> Vec<u8> {
    for page in (0..2 * RUNS).step_by(2) {
        let new = content(page as u64, PAGE);
        bytes.resize(bytes.len().max((page + 1) * PAGE), 0);
        bytes[page * PAGE..][..PAGE].copy_from_slice(&new);
        assert_eq!(file.write_at(&new, (page * PAGE) as u64).unwrap(), PAGE);
    }
    bytes
}

/// Runs `test` on each engine, with a file of three pages that completes later.
fn on_each_engine(
    options: impl Fn() -> OpenOptions + Send + 'static,
    test: impl Fn(&Arc<Later>, File, Vec<u8>) + Send + 'static,
) {
    bounded_by(
        Duration::from_secs(120),
        "write-back with depth",
        move || {
            for choice in [Choice::Auto, Choice::Worker, Choice::Sync] {
                let old = content(1, 3 * PAGE);
                let storage = Later::new(old.clone());
                let file = cache(choice)
                    .open_backend_with(Arc::clone(&storage), "later", &options())
                    .unwrap();
                storage.serve(|| test(&storage, file, old));
            }
        },
    );
}

#[test]
fn many_runs_are_on_their_way_at_once_and_are_durable_in_the_end() {
    on_each_engine(manual, |storage, file, old| {
        let bytes = write_runs(&file, old);
        file.sync_data().unwrap();
        assert!(stored(Arc::clone(storage)) == bytes);
        let most = storage.most.load(Ordering::Relaxed);
        assert!((2..=32).contains(&most), "{most} at once");
        assert_eq!(storage.nr_writes.load(Ordering::Relaxed), RUNS);
        // Neighbours go together.
        file.write_at(&bytes[..10 * PAGE], 0).unwrap();
        file.sync_data().unwrap();
        assert_eq!(storage.nr_writes.load(Ordering::Relaxed), RUNS + 1);
    });
}

#[test]
fn of_many_runs_those_that_fail_are_dirty_again_and_the_others_are_not() {
    on_each_engine(manual, |storage, file, old| {
        let bytes = write_runs(&file, old);
        let failing = [0, 6, 2 * RUNS - 2].map(|page| (page * PAGE) as u64);
        storage.fails.lock().unwrap().extend(failing);
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(storage.nr_writes.load(Ordering::Relaxed), RUNS);
        assert!(contents(&file) == bytes);
        storage.fails.lock().unwrap().clear();
        file.sync_data().unwrap();
        assert_eq!(
            storage.nr_writes.load(Ordering::Relaxed),
            RUNS + failing.len()
        );
        assert!(stored(Arc::clone(storage)) == bytes);
        file.close().map_err(|(_, error)| error).unwrap();
    });
}

/// A write that completed with fewer bytes than it was given was taken for whole.
#[test]
fn a_write_that_completes_short_fails_and_is_written_again() {
    on_each_engine(manual, |storage, file, old| {
        let bytes = write_runs(&file, old);
        storage.is_short.store(true, Ordering::Relaxed);
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let error = io::Error::from(error);
        assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{error}");
        storage.is_short.store(false, Ordering::Relaxed);
        file.sync_data().unwrap();
        assert!(stored(Arc::clone(storage)) == bytes);
    });
}

/// The runs that the storage has when the hook unwinds are waited for, as their frames are lent to it.
#[test]
fn a_hook_that_panics_with_runs_on_their_way_loses_nothing() {
    let nr_asked = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&nr_asked);
    let options = move || {
        let nr_asked = Arc::clone(&asked);
        manual().before_write(move |_, _| {
            let nr = nr_asked.fetch_add(1, Ordering::Relaxed);
            assert_ne!(nr, RUNS / 2, "made to panic");
            Ok(())
        })
    };
    on_each_engine(options, move |storage, file, old| {
        nr_asked.store(0, Ordering::Relaxed);
        let bytes = write_runs(&file, old);
        let sync = AssertUnwindSafe(|| file.sync_data());
        assert!(catch_unwind(sync).is_err());
        assert!(
            storage.queue.lock().unwrap().is_empty(),
            "a frame is still lent"
        );
        assert!(contents(&file) == bytes);
        file.sync_data().unwrap();
        assert!(stored(Arc::clone(storage)) == bytes);
    });
}

/// Pages that are written to while they are on their way are given again.
#[test]
fn writers_of_pages_on_their_way_lose_nothing() {
    on_each_engine(manual, |storage, file, old| {
        let mut bytes = write_runs(&file, old);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..20 {
                    for page in (0..2 * RUNS).step_by(2) {
                        file.write_at(&[round; 8], (page * PAGE) as u64).unwrap();
                    }
                }
            });
            while !writer.is_finished() {
                file.sync_data().unwrap();
            }
        });
        file.sync_data().unwrap();
        for page in (0..2 * RUNS).step_by(2) {
            bytes[page * PAGE..][..8].fill(19);
        }
        assert!(stored(Arc::clone(storage)) == bytes);
    });
}

/// The tail of a direct file is no whole block: it goes by itself, and the file is as long as it should be.
#[test]
fn a_direct_file_that_is_written_here_and_there_is_as_it_should_be() {
    bounded_by(Duration::from_secs(120), "direct files", || {
        let dir = scratch::dir();
        for (nr, choice) in [Choice::Auto, Choice::Worker, Choice::Sync]
            .into_iter()
            .enumerate()
        {
            let path = dir.path().join(nr.to_string());
            let reads = Arc::new(Mutex::new(None::<File>));
            let reader = Arc::clone(&reads);
            // A hook may read its own file, also from the storage.
            let hook = move |page: u64, _| {
                if let Some(file) = &*reader.lock().unwrap() {
                    file.read_at(&mut [0; 10], (page + 1) * PAGE as u64 + 1)?;
                }
                Ok(())
            };
            let options = OpenOptions::new().create_new().direct(Direct::Auto);
            let options = options.before_write(hook);
            let cache = cache(choice);
            let file = cache.open_with(&path, &options).unwrap();
            if !matches!(file.transfers(), Some(Transfers::Direct { .. })) {
                skipped("no direct transfers here");
                return;
            }
            file.set_size(3 * PAGE as u64 + 17).unwrap();
            let mut bytes = write_runs(&file, vec![0; 3 * PAGE + 17]);
            file.sync_data().unwrap();
            let tail = content(7, 3 * PAGE + 100);
            file.append(&tail).unwrap();
            bytes.extend(&tail);
            *reads.lock().unwrap() = Some(file.clone());
            let bytes = write_runs(&file, bytes);
            file.sync_data().unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes);
            *reads.lock().unwrap() = None;
        }
    });
}
