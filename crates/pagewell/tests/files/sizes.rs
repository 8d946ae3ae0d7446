//! Sizes that the storage cannot have: refused at the write, so that no sync fails for them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes, RacySource};
use pagewell::{ErrorKind, OpenOptions};
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::block_on;
use pagewell_testkit::{Resource, alone, content, limit, scratch};

use crate::support::cache;

/// Asserts that no call extends the file past `limit`, with an error that contains `cause`, and
/// that everything else works.
#[track_caller]
fn assert_bounded(file: &pagewell::File, limit: u64, cause: &str) {
    let size = file.size();
    let over = vec![9; 200];
    let at_limit = limit - 100;
    for error in [
        file.write_at(&over, at_limit).unwrap_err(),
        file.write_at(b"x", limit).unwrap_err(),
        file.append(&vec![9; (limit - size + 1) as usize])
            .unwrap_err(),
        file.set_size(limit + 1).unwrap_err(),
        block_on(file.write_at_async(over, at_limit)).1.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
    }
    assert_eq!(file.size(), size);
    file.sync_data().unwrap();
}

/// The process would get SIGXFSZ, which ends it, if a write reached the system.
#[test]
fn writes_past_the_limit_of_the_process_are_refused() {
    if !alone("sizes::writes_past_the_limit_of_the_process_are_refused") {
        return;
    }
    const LIMIT: u64 = 10_000;
    let dir = scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(1, 1000)).unwrap();
    let cache = cache(64);
    let file = cache.open_with(&path, &OpenOptions::new().write()).unwrap();
    limit(Resource::Fsize, LIMIT);
    assert_bounded(&file, LIMIT, "RLIMIT_FSIZE");
    file.write_at(b"within", 500).unwrap();
    assert_eq!(file.append(b"more").unwrap(), 1000..1004);
    file.write_at(b"last", LIMIT - 4).unwrap();
    file.sync_all().unwrap();
    assert_bounded(&file, LIMIT, "RLIMIT_FSIZE");
    // Asked again.
    limit(Resource::Fsize, u64::MAX);
    file.append(b"beyond").unwrap();
    file.close().map_err(|(_, error)| error).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), LIMIT + 6);
}

#[test]
fn sync_past_a_limit_lowered_later_names_page_and_remedy() {
    if !alone("sizes::sync_past_a_limit_lowered_later_names_page_and_remedy") {
        return;
    }
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let cache = cache(64);
    let file = cache
        .open_with(&path, &OpenOptions::new().create())
        .unwrap();
    file.write_at(b"first", 0).unwrap();
    // SAFETY: the disposition is one of the system's own.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(Resource::Fsize, 8192);
    file.write_at(&[1; 4096], 8192).unwrap();
    file.write_at(b"good", 100).unwrap();
    let error = file.sync_data().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("page 2"), "{text}");
    assert!(
        text.contains("RLIMIT_FSIZE") && text.contains("truncate"),
        "{text}"
    );
    // The good page was written all the same.
    assert_eq!(std::fs::read(&path).unwrap()[100..104], *b"good");
    file.set_size(8192).unwrap();
    file.sync_data().unwrap();
    file.close().map_err(|(_, error)| error).unwrap();
}

#[test]
fn writes_past_the_largest_file_of_the_file_system_are_refused() {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let mut sparse = File::create(&path).unwrap();
    // A position past it is invalid.
    let (mut largest, mut beyond) = (0, 1 << 48);
    if sparse.seek(SeekFrom::Start(beyond)).is_ok() {
        return skipped("files of this file system can be larger than those of a cache");
    }
    while beyond - largest > 1 {
        let middle = largest.midpoint(beyond);
        match sparse.seek(SeekFrom::Start(middle)) {
            Ok(_) => largest = middle,
            Err(_) => beyond = middle,
        }
    }
    sparse.set_len(largest - 50_000).unwrap();
    drop(sparse);
    let cache = cache(64);
    let file = cache.open_with(&path, &OpenOptions::new().write()).unwrap();
    assert_bounded(&file, largest, "file system");
    file.write_at(b"last", largest - 4).unwrap();
    file.sync_data().unwrap();
    assert_bounded(&file, largest, "file system");
    file.close().map_err(|(_, error)| error).unwrap();
}

/// A backend that ends like a device.
#[derive(Debug)]
struct Bounded {
    inner: MemoryBackend,
    limit: Arc<AtomicU64>,
    nr_checks: Arc<AtomicUsize>,
}

impl Backend for Bounded {
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
        self.inner.write_at(bufs, pos)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.nr_checks.fetch_add(1, Ordering::Relaxed);
        match size <= self.limit.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::FileTooLarge, "the end")),
        }
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.begin_sync(range)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}

#[test]
fn backend_is_asked_once_unless_its_limit_is_reached() {
    let (limit, nr_checks) = (Arc::<AtomicU64>::default(), Arc::<AtomicUsize>::default());
    let backend = Bounded {
        inner: MemoryBackend::writable(content(1, 5000)),
        limit: Arc::clone(&limit),
        nr_checks: Arc::clone(&nr_checks),
    };
    let cache = cache(64);
    let options = OpenOptions::new().write();
    let file = cache
        .open_backend_with(backend, "bounded", &options)
        .unwrap();
    file.write_at(b"within", 4000).unwrap();
    assert_eq!(nr_checks.load(Ordering::Relaxed), 0);
    limit.store(9000, Ordering::Relaxed);
    assert_bounded(&file, 9000, "the end");
    file.append(b"x").unwrap();
    limit.store(u64::MAX, Ordering::Relaxed);
    file.write_at(b"beyond", 20_000).unwrap();
    let nr = nr_checks.load(Ordering::Relaxed);
    for _ in 0..100 {
        file.append(b"x").unwrap();
    }
    file.set_size(0).unwrap();
    file.append(&content(2, 50_000)).unwrap();
    assert_eq!(nr_checks.load(Ordering::Relaxed), nr);
    file.close().map_err(|(_, error)| error).unwrap();
}
