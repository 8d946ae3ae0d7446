//! Locks against writers of other caches and processes, and handles that exclude those of the same
//! cache.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pagewell::io::{
    Backend, Fault, FaultBackend, FileBackend, FileLock, FileOptions, MemoryBackend, Operation,
};
use pagewell::space::{CacheSpaces as _, Sharing};
use pagewell::{Cache, ErrorKind, File};
use pagewell_testkit::wait::{Gate, OpenAtEnd, limit};

use crate::support::{self, writable};

fn cache() -> Cache {
    support::cache(256)
}

fn file(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("file");
    std::fs::write(&path, b"bytes").unwrap();
    path
}

#[track_caller]
fn assert_kind<T>(result: Result<T, pagewell::Error>, kind: ErrorKind) -> String {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// Calls `open` while another thread has the file locked. That thread releases the lock after `held`.
fn open_while_locked(path: &Path, held: Duration, open: impl FnOnce()) {
    let locked = FileBackend::open_writable(path, &FileOptions::new()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(held);
            drop(locked);
        });
        open();
    });
}

/// As after the crash of a process whose last requests are in progress.
#[test]
fn an_open_waits_for_a_lock_that_is_released() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let cache = cache();
    let within = writable().lock(FileLock::Within(limit()));
    open_while_locked(&path, Duration::from_millis(300), || {
        let file = cache.open_with(&path, &within).unwrap();
        assert_kind(self::cache().open_with(&path, &writable()), ErrorKind::Busy);
        file.write_all_at(b"other", 0).unwrap();
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
    // A backend of the program waits likewise.
    open_while_locked(&path, Duration::from_millis(50), || {
        let options = FileOptions::new().lock(FileLock::Within(limit()));
        FileBackend::open_writable(&path, &options).unwrap();
    });
}

#[test]
fn a_lock_that_is_never_released_is_an_error_and_the_file_is_as_before() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let _held = FileBackend::open_writable(&path, &FileOptions::new()).unwrap();
    let cache = cache();
    for lock in [
        FileLock::Exclusive,
        FileLock::Within(Duration::ZERO),
        FileLock::Within(Duration::from_millis(20)),
    ] {
        let options = writable().lock(lock).truncate();
        let message = assert_kind(cache.open_with(&path, &options), ErrorKind::Busy);
        let has_waited = lock == FileLock::Within(Duration::from_millis(20));
        assert_eq!(message.contains("waited 20ms"), has_waited, "{message}");
        let options = FileOptions::new().lock(lock).truncate();
        let error = FileBackend::open_writable(&path, &options).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
}

/// A thread that waits for the lock does not delay other threads that open the file.
#[test]
fn an_open_for_reading_ends_the_wait_for_the_lock() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let held = FileBackend::open_writable(&path, &FileOptions::new()).unwrap();
    let cache = cache();
    let within = writable().lock(FileLock::Within(limit()));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.open_with(&path, &within));
        thread::sleep(Duration::from_millis(30));
        let _reader = cache.open(&path).unwrap();
        assert_kind(waiting.join().unwrap(), ErrorKind::Busy);
    });
    drop(held);
}

#[test]
fn without_a_lock_the_program_excludes_writers() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let unlocked = writable().lock(FileLock::None);
    let _held = FileBackend::open_writable(&path, &FileOptions::new()).unwrap();
    let cache = cache();
    let file = cache.open_with(&path, &unlocked).unwrap();
    file.write_all_at(b"B", 0).unwrap();
    file.sync_all().unwrap();
    // Handles of the cache join the file, unless they need the lock.
    let same = cache.open_with(&path, &writable()).unwrap();
    assert_kind(
        cache.open_with(&path, &writable().lock(FileLock::Exclusive)),
        ErrorKind::OptionsMismatch,
    );
    drop((same, file));
    assert_eq!(std::fs::read(&path).unwrap(), b"Bytes");
    // The drop has released no lock of others.
    assert_kind(cache.open_with(&path, &writable()), ErrorKind::Busy);
    // A file in memory has no lock.
    let memory = MemoryBackend::writable(b"bytes".to_vec());
    let exclusive = writable().lock(FileLock::Exclusive);
    cache
        .open_backend_with(memory, "memory", &exclusive)
        .unwrap();
}

/// A value that keeps a file open for writing.
type Keeper = Box<dyn std::any::Any>;

fn area(cache: &Cache, file: &File) -> impl Sized + use<> {
    let space = cache.space().unwrap();
    space.map_file(file, 0..5, Sharing::Shared).unwrap();
    space
}

#[test]
fn an_exclusive_handle_is_the_only_one_that_writes() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let cache = cache();
    let exclusive = writable().exclusive(true);
    let keepers: [fn(&Cache, File) -> Keeper; 3] = [
        |_, file| Box::new(file),
        |_, file| Box::new(file.clone()),
        |cache, file| Box::new(area(cache, &file)),
    ];
    for keep in keepers {
        let kept = keep(&cache, cache.open_with(&path, &exclusive).unwrap());
        for others in [
            writable(),
            exclusive.clone(),
            writable().truncate(),
            writable().exclusive(false),
        ] {
            assert_kind(cache.open_with(&path, &others), ErrorKind::Busy);
        }
        let reader = cache.open(&path).unwrap();
        assert_eq!(reader.size(), 5);
        drop(kept);
        // The reader keeps the file open.
        let shared = keep(&cache, cache.open_with(&path, &writable()).unwrap());
        let both = cache.open_with(&path, &writable()).unwrap();
        assert_kind(cache.open_with(&path, &exclusive), ErrorKind::Busy);
        drop(both);
        assert_kind(cache.open_with(&path, &exclusive), ErrorKind::Busy);
        drop(shared);
        cache.open_with(&path, &exclusive).unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
}

/// A writable backend of the file at `path`, whose syncs call `fault`.
fn with_syncs(path: &Path, fault: impl Fn() -> Fault + Send + Sync + 'static) -> impl Backend {
    let inner = FileBackend::open_writable(path, &FileOptions::new()).unwrap();
    FaultBackend::with_script(inner, move |operation| match operation {
        Operation::SyncData | Operation::SyncAll => fault(),
        _ => Fault::None,
    })
}

#[test]
fn handle_that_cannot_be_closed_excludes_others() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let is_broken = Arc::new(AtomicBool::new(false));
    let of_syncs = Arc::clone(&is_broken);
    let backend = with_syncs(&path, move || match of_syncs.load(Ordering::Relaxed) {
        true => Fault::Fail(std::io::ErrorKind::Other.into()),
        false => Fault::None,
    });
    let builder = support::builder(256).close_timeout(Duration::ZERO);
    let cache: Cache = builder.build().unwrap();
    let exclusive = writable().exclusive(true);
    let closed = cache.open_backend_with(backend, &path, &exclusive).unwrap();
    let reader = cache.open(&path).unwrap();
    closed.close().unwrap();
    let writer = cache.open_with(&path, &exclusive).unwrap();
    drop(reader);
    writer.write_all_at(b"B", 0).unwrap();
    is_broken.store(true, Ordering::Relaxed);
    let (writer, error) = writer.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for options in [&writable(), &exclusive] {
        assert_kind(cache.open_with(&path, options), ErrorKind::Busy);
    }
    is_broken.store(false, Ordering::Relaxed);
    writer.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"Bytes");
    cache.open_with(&path, &exclusive).unwrap();
}

#[test]
fn exclusive_open_beside_a_drop_that_saves_the_file() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let gate = Arc::new(Gate::new());
    let of_syncs = Arc::clone(&gate);
    let backend = with_syncs(&path, move || {
        of_syncs.pass();
        Fault::None
    });
    let cache = cache();
    let exclusive = writable().exclusive(true);
    let writer = cache.open_backend_with(backend, &path, &exclusive).unwrap();
    writer.write_all_at(b"B", 0).unwrap();
    thread::scope(|scope| {
        let _open = OpenAtEnd(&gate);
        scope.spawn(|| drop(writer));
        gate.wait_for(1);
        let next = cache.open_with(&path, &exclusive).unwrap();
        let mut bytes = [0; 5];
        next.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"Bytes");
        assert_kind(cache.open_with(&path, &writable()), ErrorKind::Busy);
        next.write_all_at(b"R", 0).unwrap();
        gate.open();
        next.close().unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"Rytes");
}

/// An exclusive open that fails at the last step, the truncation, does not count as a writer.
#[test]
fn failed_exclusive_open_excludes_no_writer() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let is_broken = Arc::new(AtomicBool::new(false));
    let of_script = Arc::clone(&is_broken);
    let inner = FileBackend::open_writable(&path, &FileOptions::new()).unwrap();
    let backend = FaultBackend::with_script(inner, move |operation| match operation {
        Operation::SetSize { .. } if of_script.load(Ordering::Relaxed) => {
            Fault::Fail(std::io::ErrorKind::Other.into())
        }
        _ => Fault::None,
    });
    let cache = cache();
    let writer = cache
        .open_backend_with(backend, &path, &writable())
        .unwrap();
    let reader = cache.open(&path).unwrap();
    drop(writer);
    let exclusive = writable().exclusive(true);
    is_broken.store(true, Ordering::Relaxed);
    let truncated = cache.open_with(&path, &exclusive.clone().truncate());
    assert_kind(truncated, ErrorKind::Io);
    is_broken.store(false, Ordering::Relaxed);
    cache.open_with(&path, &exclusive).unwrap();
    drop(reader);
}

/// The lock of a file that was renamed over does not exclude writers of the new file at the path.
#[test]
fn an_open_that_waits_for_a_replaced_file_opens_the_new_one() {
    let dir = pagewell_testkit::scratch::dir();
    let path = file(dir.path());
    let held = FileBackend::open_writable(&path, &FileOptions::new()).unwrap();
    let new = dir.path().join("new");
    std::fs::write(&new, b"new").unwrap();
    let cache = cache();
    let within = writable().lock(FileLock::Within(limit()));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.open_with(&path, &within));
        thread::sleep(Duration::from_millis(30));
        std::fs::rename(&new, &path).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().size(), 3);
    });
    drop(held);
}
