//! Many threads at once, for a while, on files whose every word says where it belongs.
//!
//! Readers, pins, evictions, invalidations, changes of size and reopens share a cache that is much smaller
//! than the files. Bytes that are torn, foreign or stale are found by whoever reads them: a word names
//! its file, its position and the version of its page; a page is of one version; and a read that begins
//! after a page was invalidated must not see what it was before.
//!
//! `PAGEWELL_SOAK_SECONDS` says how long each test runs (3 unless told), `PAGEWELL_SEED` repeats what its
//! threads choose to do, though not when.
//!
//! Under sanitizers: see `docs/TESTING.md`; ThreadSanitizer needs `--cfg pagewell_tsan`, which selects the
//! copy that it understands.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pagewell::io::MemoryBackend;
use pagewell::{Cache, Error, ErrorKind, File, OpenOptions, OwnedPageGuard};
use pagewell_testkit::content::{WORD, check_words, write_words};
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Rng, Seed};
use support::{PAGE, Share, UNTOUCHED, assert_all_free, cache};
use tempfile::TempDir;

mod support;

/// How many threads read.
const READERS: u64 = 4;

/// The longest read, in bytes.
const MOST_READ: usize = 96 << 10;

fn duration() -> Duration {
    let seconds = match std::env::var("PAGEWELL_SOAK_SECONDS") {
        Ok(text) => text.parse().expect("PAGEWELL_SOAK_SECONDS in seconds"),
        Err(_) => 3,
    };
    Duration::from_secs(seconds)
}

/// What happens to a file while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Nothing; it is on disk, with two names.
    OnDisk,
    /// Its pages are rewritten, a version at a time, and invalidated.
    Rewritten,
    /// It is cut and grows back.
    Resized,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    life: Life,
    len: usize,
    page_size: usize,
}

enum Storage {
    Disk([PathBuf; 2]),
    Memory(Share<MemoryBackend>),
}

struct TestFile {
    number: u64,
    spec: Spec,
    storage: Storage,
    /// For each page, the version that every read which begins now sees, or a later one.
    versions: Vec<AtomicU16>,
}

impl TestFile {
    fn new(number: u64, spec: Spec, dir: &TempDir) -> Self {
        let mut bytes = vec![0; spec.len];
        write_words(&mut bytes, number, 0, 0);
        let storage = match spec.life {
            Life::OnDisk => {
                let names = ["", " again"].map(|s| dir.path().join(format!("file {number}{s}")));
                std::fs::write(&names[0], &bytes).unwrap();
                std::fs::hard_link(&names[0], &names[1]).unwrap();
                Storage::Disk(names)
            }
            Life::Rewritten | Life::Resized => {
                Storage::Memory(Share::new(MemoryBackend::new(bytes)))
            }
        };
        let nr_pages = spec.len.div_ceil(spec.page_size);
        Self {
            number,
            spec,
            storage,
            versions: (0..nr_pages).map(|_| AtomicU16::new(0)).collect(),
        }
    }

    fn open(&self, cache: &Cache, rng: &mut Rng) -> File {
        let options = OpenOptions::new().page_size(self.spec.page_size);
        match &self.storage {
            Storage::Disk(names) => cache.open_with(&names[rng.index(2)], &options),
            Storage::Memory(backend) => {
                cache.open_backend_with(backend.clone(), "in memory", &options)
            }
        }
        .expect("a file that can be opened")
    }

    /// The version of each page that a read of `len` bytes from `pos` on may have.
    fn versions_before(&self, pos: usize, len: usize) -> Vec<u16> {
        let pages = pos / self.spec.page_size..(pos + len).div_ceil(self.spec.page_size);
        let nr_pages = self.versions.len();
        self.versions[pages.start.min(nr_pages)..pages.end.min(nr_pages)]
            .iter()
            .map(|version| version.load(Ordering::Acquire))
            .collect()
    }

    /// Checks what a read from `pos` on gave that began when the pages were at least `versions`.
    fn check(&self, pos: usize, got: &[u8], versions: &[u16]) {
        let (mut pos, mut rest) = (pos, got);
        for least in versions {
            let here = (self.spec.page_size - pos % self.spec.page_size).min(rest.len());
            match check_words(&rest[..here], self.number, pos as u64) {
                // Versions go round: a later one is less than half a round ahead.
                Ok(Some(version)) => assert!(
                    version.wrapping_sub(*least) < 1 << 15,
                    "stale: byte {pos} of {:?} is of version {version}, not {least} or later",
                    self.spec
                ),
                Ok(None) => {}
                Err(why) => panic!("{why} ({:?}, read of {} bytes)", self.spec, got.len()),
            }
            pos += here;
            rest = &rest[here..];
        }
        assert!(rest.is_empty(), "more than was asked for");
    }

    /// Rewrites one page and makes the cache forget it.
    fn rewrite(&self, file: &File, backend: &MemoryBackend, rng: &mut Rng) {
        let page = rng.index(self.versions.len());
        let start = page * self.spec.page_size;
        let end = (start + self.spec.page_size).min(self.spec.len);
        let next = self.versions[page].load(Ordering::Relaxed).wrapping_add(1);
        backend.modify(|bytes| {
            write_words(&mut bytes[start..end], self.number, start as u64, next);
        });
        let (from, to) = match rng.below(64) {
            0 => (0, u64::MAX),
            1..8 => (start as u64 + 9, start as u64 + 10),
            _ => (start as u64, end as u64),
        };
        file.invalidate(from..to);
        self.versions[page].store(next, Ordering::Release);
    }

    /// Cuts the file, or lets it grow, by any number of words, and tells the cache.
    fn resize(&self, file: &File, backend: &MemoryBackend, rng: &mut Rng) {
        let len = match rng.below(3) {
            0 => self.spec.len,
            1 => self.spec.len - rng.index(self.spec.len.min(2 * PAGE) / WORD) * WORD,
            _ => rng.index(self.spec.len / WORD) * WORD,
        };
        backend.modify(|bytes| {
            let old = bytes.len();
            bytes.resize(len, 0);
            if let Some(new) = bytes.get_mut(old..) {
                write_words(new, self.number, old as u64, 0);
            }
        });
        // Someone else may open the file at the same time, and with that refresh it.
        file.refresh().expect("a size within the index");
    }
}

/// What all threads of a run share.
struct World {
    cache: Cache,
    files: Vec<TestFile>,
    is_over: AtomicBool,
    nr_reads: AtomicU64,
    nr_out_of_frames: AtomicU64,
}

/// Ends the run when a thread panics, so that the others do not go on for nothing.
struct EndOnPanic<'w>(&'w AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A pin that is held for a while, and what it showed at first.
struct Held {
    guard: OwnedPageGuard,
    file: usize,
    pos: usize,
    version: Option<u16>,
}

impl World {
    /// Whether every kind of work has been done, so that a run may end.
    fn has_done_enough(&self) -> bool {
        let (nr_reads, stats) = (self.nr_reads.load(Ordering::Relaxed), self.cache.stats());
        nr_reads > 100 && stats.nr_evictions > 10 && stats.nr_fills > 100
    }

    /// Checks an error, which may only be one that the test itself brings about.
    fn check_error(&self, file: &TestFile, error: &Error) {
        match error.kind() {
            ErrorKind::Truncated | ErrorKind::OutOfRange if file.spec.life == Life::Resized => {}
            ErrorKind::OutOfFrames => {
                self.nr_out_of_frames.fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("{error:?}"),
        }
    }

    fn read(&self, number: usize, handle: &File, rng: &mut Rng, buf: &mut [u8]) {
        let file = &self.files[number];
        let len = match rng.below(16) {
            0 => rng.index(MOST_READ),
            1 | 2 => rng.index(3 * PAGE),
            _ => rng.index(200),
        };
        let pos = match rng.below(4) {
            // The first pages are read often, so that they are hot when they are taken out.
            0 | 1 => rng.index(PAGE.min(file.spec.len)),
            2 => file.spec.len - rng.index(2 * PAGE).min(file.spec.len),
            _ => rng.index(file.spec.len),
        };
        let buf = &mut buf[..len];
        buf.fill(UNTOUCHED);
        let versions = file.versions_before(pos, len);
        let result = if rng.one_in(8) {
            handle.read_at_referenced(buf, pos as u64)
        } else {
            handle.read_at(buf, pos as u64)
        };
        self.nr_reads.fetch_add(1, Ordering::Relaxed);
        let n = match result {
            Ok(n) => n,
            Err(error) => {
                self.check_error(file, &error);
                0
            }
        };
        let pages = (pos % file.spec.page_size + n).div_ceil(file.spec.page_size);
        file.check(pos, &buf[..n], &versions[..pages.min(versions.len())]);
        assert!(
            buf[n..].iter().all(|&b| b == UNTOUCHED || b == 0),
            "foreign bytes after the {n} that were read ({:?})",
            file.spec
        );
        if file.spec.life != Life::Resized {
            let expected = (file.spec.len - pos).min(len);
            assert!(n <= expected);
        }
    }

    fn pin(&self, number: usize, handle: &File, rng: &mut Rng) {
        let file = &self.files[number];
        let page = rng.index(file.versions.len());
        let pos = page * file.spec.page_size;
        let versions = file.versions_before(pos, 1);
        match handle.pin(page as u64) {
            Ok(guard) => {
                file.check(pos, &guard, &versions);
                let version = check_words(&guard, file.number, pos as u64);
                thread::yield_now();
                assert_eq!(check_words(&guard, file.number, pos as u64), version);
            }
            Err(error) => self.check_error(file, &error),
        }
    }

    fn hold(&self, number: usize, handle: &File, rng: &mut Rng) -> Option<Held> {
        let file = &self.files[number];
        let page = rng.index(file.versions.len());
        let pos = page * file.spec.page_size;
        let versions = file.versions_before(pos, 1);
        match handle.pin_owned(page as u64) {
            Ok(guard) => {
                file.check(pos, &guard, &versions);
                let version = check_words(&guard, file.number, pos as u64).unwrap();
                Some(Held {
                    guard,
                    file: number,
                    pos,
                    version,
                })
            }
            Err(error) => {
                self.check_error(file, &error);
                None
            }
        }
    }

    fn let_go(&self, held: Held) {
        let number = self.files[held.file].number;
        assert_eq!(
            check_words(&held.guard, number, held.pos as u64),
            Ok(held.version),
            "a pinned page has changed"
        );
    }

    fn run_reader(&self, mut rng: Rng) {
        let _end = EndOnPanic(&self.is_over);
        let mut handles: Vec<File> = self
            .files
            .iter()
            .map(|file| file.open(&self.cache, &mut rng))
            .collect();
        let mut held = None;
        let mut buf = vec![0; MOST_READ];
        while !self.is_over.load(Ordering::Relaxed) {
            let number = rng.index(self.files.len());
            match rng.below(64) {
                0 => handles[number] = self.files[number].open(&self.cache, &mut rng),
                1 => handles[number] = handles[number].clone(),
                2 | 3 => {
                    if let Some(held) = held.take() {
                        self.let_go(held);
                    }
                    held = self.hold(number, &handles[number], &mut rng);
                }
                4..8 => self.pin(number, &handles[number], &mut rng),
                _ => self.read(number, &handles[number], &mut rng, &mut buf),
            }
        }
        drop(handles);
        if let Some(held) = held {
            self.let_go(held);
        }
    }

    /// Changes files; alone, so that versions go up one by one.
    fn run_writer(&self, mut rng: Rng) {
        let _end = EndOnPanic(&self.is_over);
        let handles: Vec<File> = self
            .files
            .iter()
            .map(|file| file.open(&self.cache, &mut rng))
            .collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let number = rng.index(self.files.len());
            let (file, handle) = (&self.files[number], &handles[number]);
            match (&file.storage, file.spec.life) {
                (Storage::Memory(backend), Life::Rewritten) => {
                    file.rewrite(handle, backend, &mut rng);
                }
                (Storage::Memory(backend), Life::Resized) => {
                    file.resize(handle, backend, &mut rng);
                }
                _ => handle.invalidate(rng.below(1 << 18)..rng.below(1 << 18)),
            }
        }
    }

    /// Evicts, and opens files that nobody else has open, so that mappings come and go.
    fn run_evictor(&self, mut rng: Rng, dir: &TempDir) {
        let _end = EndOnPanic(&self.is_over);
        let spec = Spec {
            life: Life::OnDisk,
            len: 5 * PAGE,
            page_size: PAGE,
        };
        let other = TestFile::new(1000, spec, dir);
        let mut buf = vec![0; spec.len];
        while !self.is_over.load(Ordering::Relaxed) {
            // Mostly a little, so that pages live long enough to be hot; now and then nearly all.
            let nr = match rng.below(32) {
                0 => rng.index(self.cache.stats().nr_frames),
                _ => rng.index(4),
            };
            self.cache.reclaim(nr);
            let handle = other.open(&self.cache, &mut rng);
            match handle.read_at(&mut buf, 0) {
                Ok(n) => other.check(0, &buf[..n], &[0; 5][..n.div_ceil(PAGE)]),
                Err(error) => self.check_error(&other, &error),
            }
            thread::yield_now();
        }
    }
}

fn run(nr_frames: u64, specs: &[Spec]) {
    let specs = specs.to_vec();
    let duration = duration();
    bounded_by(duration + Duration::from_secs(60), "stress", move || {
        let seed = Seed::of_run();
        let dir = pagewell_testkit::scratch::dir();
        let files = (1..).zip(&specs);
        let world = World {
            cache: cache(nr_frames),
            files: files.map(|(n, s)| TestFile::new(n, *s, &dir)).collect(),
            is_over: AtomicBool::new(false),
            nr_reads: AtomicU64::new(0),
            nr_out_of_frames: AtomicU64::new(0),
        };
        let start = Instant::now();
        thread::scope(|scope| {
            let (world, dir) = (&world, &dir);
            let mut threads: Vec<_> = (0..READERS)
                .map(|reader| {
                    let rng = seed.part(reader);
                    scope.spawn(move || world.run_reader(rng))
                })
                .collect();
            let (writers, evictors) = (seed.part(100), seed.part(101));
            threads.push(scope.spawn(move || world.run_writer(writers)));
            threads.push(scope.spawn(move || world.run_evictor(evictors, dir)));
            let goes_on = || start.elapsed() < duration || !world.has_done_enough();
            while goes_on() && !world.is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
            world.is_over.store(true, Ordering::Relaxed);
            for thread in threads {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
        assert_all_free(&world.cache);
        let stats = world.cache.stats();
        let nr_reads = world.nr_reads.load(Ordering::Relaxed);
        let nr_out_of_frames = world.nr_out_of_frames.load(Ordering::Relaxed);
        println!("{nr_reads} reads, {nr_out_of_frames} times out of frames, {stats:?}");
        assert!(world.has_done_enough());
        assert!(
            nr_out_of_frames <= nr_reads / 20,
            "pins and fills never have more than a part of the frames"
        );
    });
}

#[test]
fn files_larger_than_the_cache_are_read_right_by_many_threads() {
    let spec = |life, kib: usize, frames: usize| Spec {
        life,
        len: (kib << 10) + 8,
        page_size: frames * PAGE,
    };
    run(
        384,
        &[
            spec(Life::OnDisk, 1024, 1),
            spec(Life::OnDisk, 1500, 16),
            spec(Life::Rewritten, 512, 1),
            spec(Life::Rewritten, 777, 4),
            spec(Life::Resized, 200, 2),
            spec(Life::Resized, 9, 1),
        ],
    );
}

#[test]
fn a_few_frames_that_many_pages_want_are_read_right() {
    // Every page is soon read into a frame that another page was read from just now.
    let spec = |life, nr_pages: usize| Spec {
        life,
        len: nr_pages * PAGE,
        page_size: PAGE,
    };
    run(
        48,
        &[
            spec(Life::Rewritten, 2),
            spec(Life::Rewritten, 30),
            spec(Life::OnDisk, 30),
            spec(Life::Resized, 3),
        ],
    );
}

/// Symptom: zeros between the old end and the new one of a file that had grown. Cause: the size was compared
/// before and after the page was found, and had shrunk and grown back meanwhile; the page was from when
/// the file was short.
#[test]
fn a_file_that_shrinks_and_grows_shows_only_what_it_has() {
    let spec = |len| Spec {
        life: Life::Resized,
        len,
        page_size: PAGE,
    };
    run(16, &[spec(PAGE), spec(PAGE + 800)]);
}
