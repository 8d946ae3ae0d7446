//! Files that all actors of a history share, and random draws.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use pagewell::io::Direct;
use pagewell::io::engine::{Choice, Settings};
use pagewell::{Builder, Cache, File, Nodes, OpenOptions};
use pagewell_testkit::{Rng, content, wait};

use crate::PAGE;
use crate::faults::{SlowMemory, slow_memory};

/// Length in bytes of the files that all actors share.
pub(crate) const SHARED_BYTES: usize = 60 * PAGE + 77;

/// The only byte of the shared log.
const LOG_BYTE: u8 = 0x5A;

/// Data that the threads of a history share. It contains neither a cache nor an open file.
pub(crate) struct Shared {
    /// Content of the two files below.
    pub(crate) bytes: Vec<u8>,
    /// File that is only read, also by other caches.
    pub(crate) common: PathBuf,
    /// File to which actors write the bytes that it has.
    slab: PathBuf,
    slab_direct: Direct,
    pub(crate) dir: PathBuf,
    log: SlowMemory,
    /// Number of bytes of completed and of started appends to the log.
    appended: AtomicU64,
    appending: AtomicU64,
    /// Held exclusively while a child exists: a child shares the locks of open files, so a file
    /// that is closed concurrently seems to be open elsewhere.
    pub(crate) forks: RwLock<()>,
}

impl Shared {
    pub(crate) fn new(dir: PathBuf, rng: &mut Rng) -> Self {
        let bytes = content(rng.next_u64(), SHARED_BYTES);
        let [common, slab] = ["common", "slab"].map(|name| dir.join(name));
        fs::write(&common, &bytes).unwrap();
        fs::write(&slab, &bytes).unwrap();
        Self {
            bytes,
            common,
            slab,
            slab_direct: [Direct::Never, Direct::Auto][rng.index(2)],
            dir,
            log: slow_memory(Vec::new(), rng.next_u64()),
            appended: AtomicU64::new(0),
            appending: AtomicU64::new(0),
            forks: RwLock::new(()),
        }
    }

    /// Calls `open` while no child exists.
    pub(crate) fn open<R>(&self, open: impl FnOnce() -> R) -> R {
        let _no_fork = self.forks.read().unwrap();
        open()
    }

    pub(crate) fn open_common(&self, cache: &Cache) -> File {
        self.open(|| cache.open(&self.common)).unwrap()
    }

    pub(crate) fn open_slab(&self, cache: &Cache) -> File {
        let options = OpenOptions::new().write().direct(self.slab_direct);
        self.open(|| cache.open_with(&self.slab, &options)).unwrap()
    }

    pub(crate) fn open_log(&self, cache: &Cache) -> File {
        let (log, options) = (Arc::clone(&self.log), OpenOptions::new().write());
        self.open(|| cache.open_backend_with(log, "log", &options))
            .unwrap()
    }

    /// Compares bytes at `offset` of the common file or the slab.
    pub(crate) fn check(&self, got: &[u8], offset: usize) -> Result<(), String> {
        same(got, &self.bytes[offset..][..got.len()], offset)
    }

    pub(crate) fn check_stored_slab(&self) {
        same(&fs::read(&self.slab).unwrap(), &self.bytes, 0).unwrap();
    }

    /// Returns `nr` bytes for an append to the log, which [`end_append`](Self::end_append) follows
    /// if it succeeds.
    pub(crate) fn start_append(&self, nr: u64) -> Vec<u8> {
        self.appending.fetch_add(nr, Ordering::SeqCst);
        vec![LOG_BYTE; nr as usize]
    }

    pub(crate) fn end_append(&self, nr: u64) {
        self.appended.fetch_add(nr, Ordering::SeqCst);
    }

    pub(crate) fn check_log(&self, file: &File) {
        let (min, size) = (self.appended.load(Ordering::SeqCst), file.size());
        let max = self.appending.load(Ordering::SeqCst);
        assert!(
            (min..=max).contains(&size),
            "log of {size} bytes, not {min} to {max}"
        );
        let start = size.saturating_sub(150);
        let mut tail = vec![0; (size - start) as usize];
        file.read_exact_at(&mut tail, start).unwrap();
        assert!(
            tail.iter().all(|byte| *byte == LOG_BYTE),
            "bytes of the log"
        );
    }
}

pub(crate) fn same(got: &[u8], expected: &[u8], offset: usize) -> Result<(), String> {
    if got.len() != expected.len() {
        let (is, should) = (got.len(), expected.len());
        return Err(format!("{is} bytes at {offset}, not {should}"));
    }
    match std::iter::zip(got, expected).position(|(a, b)| a != b) {
        Some(nr) => Err(format!("wrong byte at {}", offset + nr)),
        None => Ok(()),
    }
}

pub(crate) fn builder(choice: Choice, bytes: u64) -> Builder {
    let mut engine = Settings::new(choice);
    // A thread that the drop of its engine does not end must not end by itself.
    engine.workers.idle = Duration::from_secs(3600);
    Cache::builder()
        .capacity(bytes)
        .nodes(Nodes::Unbound(1))
        .engine(engine)
        // A loaded machine may run the thread of a backend late.
        .stall_timeout(wait::scaled(crate::LIMIT))
}

pub(crate) fn choice(rng: &mut Rng) -> Choice {
    [Choice::Auto, Choice::Auto, Choice::Worker, Choice::Sync][rng.index(4)]
}

/// Returns some ranges of one whole page each of a file of `len` bytes.
pub(crate) fn page_ranges(rng: &mut Rng, len: usize) -> Vec<Range<u64>> {
    let (nr_pages, nr_ranges) = ((len / PAGE).max(1) as u64, 1 + rng.index(32));
    let range = |_| {
        let start = rng.below(nr_pages) * PAGE as u64;
        start..start + PAGE as u64
    };
    (0..nr_ranges).map(range).collect()
}

/// Returns a range of fewer than `max` bytes of a file of `len` bytes.
pub(crate) fn sub_range(rng: &mut Rng, len: usize, max: usize) -> Range<usize> {
    let start = rng.index(len + 1);
    start..(start + rng.index(max)).min(len)
}
