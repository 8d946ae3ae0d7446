//! Hooks for tests, and files of them.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell::io::{Backend, MemoryBackend};
use pagewell::{Cache, ErrorKind, File, OpenOptions, OutgoingPage, PageHooks, Writeback};
use pagewell_testkit::rng::mix;

/// Changes all bytes of a page by a stream that its number gives.
#[derive(Default)]
pub(crate) struct Keyed {
    pub(crate) nr_out: AtomicUsize,
    pub(crate) nr_in: AtomicUsize,
}

fn stream(page: u64, at: usize) -> u8 {
    let word = mix(mix(page) ^ (at / 8) as u64);
    word.to_le_bytes()[at % 8]
}

fn apply_stream(page: u64, bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= stream(page, at);
    }
}

impl PageHooks for Keyed {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        assert!(!pages.is_empty());
        let first = pages[0].page();
        for (nr, page) in (first..).zip(pages) {
            assert_eq!(page.page(), nr);
            assert!(page.bytes()[page.nr_used()..].iter().all(|byte| *byte == 0));
            assert_ne!(page.nr_used(), 0);
            apply_stream(nr, page.bytes_mut());
            // ORDERING: Relaxed; a statistic.
            self.nr_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        // ORDERING: Relaxed; a statistic.
        self.nr_in.fetch_add(1, Ordering::Relaxed);
        apply_stream(page, bytes);
        Ok(())
    }
}

/// The bytes at the end of each page that are left for a checksum.
pub(crate) const TRAILER: usize = 8;

/// A checksum of each page, and of its number, in the last bytes.
#[derive(Default)]
pub(crate) struct Checked {
    /// Pages that are refused, out and in.
    pub(crate) not_out: Mutex<BTreeSet<u64>>,
    pub(crate) not_in: Mutex<BTreeSet<u64>>,
    /// How many pages each call of `before_write` has got.
    pub(crate) calls: Mutex<Vec<usize>>,
}

fn trailer(page: u64, bytes: &[u8]) -> [u8; TRAILER] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page.to_le_bytes());
    hasher.update(bytes);
    let mut trailer = *b"sum:\0\0\0\0";
    trailer[4..].copy_from_slice(&hasher.finalize().to_le_bytes());
    trailer
}

impl PageHooks for Checked {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        self.calls.lock().unwrap().push(pages.len());
        for page in pages {
            let nr = page.page();
            if self.not_out.lock().unwrap().contains(&nr) {
                return Err(io::Error::other(format!("not page {nr}")));
            }
            let bytes = page.bytes_mut();
            let (body, end) = bytes.split_at_mut(bytes.len() - TRAILER);
            if end.iter().any(|byte| *byte != 0) {
                return Err(io::Error::other("bytes where the checksum is to be"));
            }
            end.copy_from_slice(&trailer(nr, body));
        }
        Ok(())
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        if self.not_in.lock().unwrap().contains(&page) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no key"));
        }
        let (body, end) = bytes.split_at_mut(bytes.len() - TRAILER);
        if *end != trailer(page, body) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "another checksum",
            ));
        }
        end.fill(0);
        Ok(())
    }
}

/// Hooks of two closures, called for each page.
pub(crate) struct Closures<W, R>(pub(crate) W, pub(crate) R);

impl<W, R> PageHooks for Closures<W, R>
where
    W: Fn(&mut OutgoingPage<'_>) -> io::Result<()> + Send + Sync + 'static,
    R: Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync + 'static,
{
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        pages.iter_mut().try_for_each(&self.0)
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        (self.1)(page, bytes)
    }
}

/// Options for writing with these hooks, and with nothing done in the background.
pub(crate) fn manual(hooks: &Arc<impl PageHooks>) -> OpenOptions {
    let hooks = Arc::clone(hooks);
    OpenOptions::new()
        .write()
        .writeback(Writeback::Manual)
        .page_hooks(hooks)
}

/// An empty storage in memory.
pub(crate) fn memory() -> Arc<MemoryBackend> {
    Arc::new(MemoryBackend::writable(Vec::new()))
}

/// What a storage in memory has.
pub(crate) fn stored(storage: &MemoryBackend) -> Vec<u8> {
    let mut bytes = Vec::new();
    storage.modify(|all| bytes.clone_from(all));
    bytes
}

/// A cache of so many frames.
pub(crate) fn cache(nr_frames: u64) -> Cache {
    crate::support::cache(nr_frames)
}

/// The file of a storage, opened in a cache.
pub(crate) fn open(cache: &Cache, storage: &Arc<impl Backend>, options: &OpenOptions) -> File {
    cache
        .open_backend_with(Arc::clone(storage), "file", options)
        .unwrap()
}

/// All bytes of a file.
pub(crate) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0xa5; file.size() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// All bytes of a file with hooks, as another cache reads them.
pub(crate) fn reopened(storage: &Arc<impl Backend>, hooks: &Arc<impl PageHooks>) -> Vec<u8> {
    let hooks = Arc::clone(hooks);
    let cache = cache(64);
    contents(&open(
        &cache,
        storage,
        &OpenOptions::new().page_hooks(hooks),
    ))
}

/// An error of a page that is not what was written.
#[track_caller]
pub(crate) fn is_corrupt<T: std::fmt::Debug>(result: Result<T, pagewell::Error>, page: u64) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("(page {page})")), "{text}");
    assert!(error.path().is_some(), "{text}");
}
