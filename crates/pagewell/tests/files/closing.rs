//! When a file is closed: with its last handle, whoever else happens to look at it.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{self, PAGE, cache, writable};
use pagewell::io::{
    Backend, Fault, FaultBackend, FileBackend, FileId, FileOptions, MemoryBackend, Operation,
    RacyBytes, RacySource,
};
use pagewell::space::{CacheSpaces as _, Sharing};
use pagewell::{Cache, ErrorKind, File, OpenOptions, OwnedPageGuard, Writeback};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded};

/// A file of so many pages in memory whose writes wait at a gate.
fn open_gated(cache: &Cache, gate: &Arc<Gate>, nr_pages: usize) -> (File, Arc<MemoryBackend>) {
    let storage = Arc::new(MemoryBackend::writable(vec![0; nr_pages * PAGE]));
    let gate = Arc::clone(gate);
    let backend = FaultBackend::with_script(Arc::clone(&storage), move |operation| {
        if matches!(operation, Operation::Write { .. }) {
            gate.pass();
        }
        Fault::None
    });
    let file = cache.open_backend_with(backend, "gated", &writable());
    (file.expect("a writable backend"), storage)
}

/// "Frames were lost", a test of mapped files said once: when all files had been dropped, the frames of one were not free.
/// They were a moment later. The thread that writes back had taken hold of all open files at the beginning of its round,
/// and let go of each when it was through with it; a file whose last handle went meanwhile stayed open, locked and in
/// memory until then, which is as long as the storages of the files before it take. Now it visits one file at a time, and
/// who drops the last handle waits for who visits this one.
#[test]
fn a_file_is_closed_though_the_storage_of_another_is_late() {
    close_while_another_is_late(1);
}

/// The same, with so many dirty pages that the thread makes pages clean, as writers at the limit do.
#[test]
fn a_file_is_closed_though_that_of_one_with_many_dirty_pages_is() {
    close_while_another_is_late(80);
}

fn close_while_another_is_late(nr_dirty: usize) {
    const NR_FILES: usize = 8;
    bounded("files that are closed", move || {
        let gate = Arc::new(Gate::new());
        let cache = cache(256);
        let dir = pagewell_testkit::scratch::dir();
        let paths: Vec<_> = (0..NR_FILES)
            .map(|nr| dir.path().join(nr.to_string()))
            .collect();
        let create = OpenOptions::new().create();
        let (late, _) = open_gated(&cache, &gate, nr_dirty);
        let _open = OpenAtEnd(&gate);
        // Its pages are there, and are written in their frames later.
        let mut all = vec![0; nr_dirty * PAGE];
        assert_eq!(late.read_at(&mut all, 0).unwrap(), all.len());
        let before = cache.stats().nr_free;
        let files: Vec<_> = paths
            .iter()
            .map(|path| cache.open_with(path, &create).unwrap())
            .collect();
        for file in &files {
            file.write_at(&[1; 3 * PAGE], 0).unwrap();
            file.sync_all().unwrap();
        }
        late.write_at(&all, 0).unwrap();
        // The thread of the cache is in its storage, and was given the others in the same round.
        gate.wait_for(1);
        drop(files);
        assert_eq!(cache.stats().nr_free, before, "frames of closed files");
        let other = support::cache(64);
        for path in &paths {
            // Nobody has its lock any more.
            drop(other.open_with(path, &writable()).unwrap());
        }
        gate.open();
        drop(late);
        support::assert_all_free(&cache);
    });
}

/// Files that are closed at any moment of rounds of the thread of the cache, and of evictions.
#[test]
fn a_file_that_is_closed_while_it_is_looked_at_gives_everything_back() {
    bounded("files that are closed", || {
        let cache = cache(128);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let evictor = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    cache.reclaim(usize::MAX);
                    std::thread::yield_now();
                }
            });
            for round in 0..300_u64 {
                let storage = Arc::new(MemoryBackend::writable(Vec::new()));
                let file = cache.open_backend_with(Arc::clone(&storage), "file", &writable());
                let file = file.unwrap();
                // A quarter of the frames is not clean now and then, which wakes the thread of the cache.
                let nr_pages = 1 + round % 40;
                file.write_at(&vec![round as u8; nr_pages as usize * PAGE], 0)
                    .unwrap();
                let space = cache.space().unwrap();
                let area = space
                    .map_file(&file, 0..nr_pages * PAGE as u64, Sharing::Private)
                    .unwrap();
                space.write(area.start, &[1]).unwrap();
                drop(file);
                assert_ne!(Arc::strong_count(&storage), 1, "an area keeps the file");
                drop(space);
                assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
            }
            is_done.store(true, Ordering::Relaxed);
            evictor.join().unwrap();
        });
        support::assert_all_free(&cache);
    });
}

/// Pins of a page that borrow nothing: a counted one, and one by an announcement, where the system has those.
fn owned_pins(file: &File, page: u64) -> [OwnedPageGuard; 2] {
    for _ in 0..100 {
        drop(file.pin_owned(page).unwrap());
    }
    [
        file.pin_owned_counted(page).unwrap(),
        file.pin_owned(page).unwrap(),
    ]
}

/// A pin that borrows nothing keeps its own frame. The file is closed, and no other frame of it is kept.
#[test]
fn what_pins_alone_keep_is_their_frames() {
    for which in [0, 1] {
        let cache = cache(256);
        let unopened = cache.stats().nr_free;
        let storage = Arc::new(MemoryBackend::writable(vec![7; 100 * PAGE]));
        let file = cache
            .open_backend_with(Arc::clone(&storage), "pinned", &writable())
            .unwrap();
        let mut all = vec![0; 100 * PAGE];
        assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len());
        let pin = owned_pins(&file, 50).into_iter().nth(which).unwrap();
        drop(file);
        assert_eq!(Arc::strong_count(&storage), 1, "a pin keeps a file open");
        assert_eq!(unopened - cache.stats().nr_free, 1, "frames are kept");
        assert!(pin.iter().all(|byte| *byte == 7));
        drop(pin);
        support::assert_all_free(&cache);
    }
}

/// A save that fails when the last handle goes is a loss, whoever has pages pinned: they keep their bytes, and no longer the file.
#[test]
fn what_could_not_be_saved_is_lost_with_the_last_handle() {
    let cache = cache(64);
    let storage = Arc::new(MemoryBackend::writable(vec![0; 2 * PAGE]));
    let is_broken = Arc::new(AtomicBool::new(true));
    let open = || {
        let is_broken = Arc::clone(&is_broken);
        let backend = FaultBackend::with_script(Arc::clone(&storage), move |operation| {
            if matches!(operation, Operation::Write { .. }) && is_broken.load(Ordering::Relaxed) {
                return Fault::Fail(std::io::Error::other("broken"));
            }
            Fault::None
        });
        let manual = OpenOptions::new().writeback(Writeback::Manual);
        cache.open_backend_with(backend, "file", &manual).unwrap()
    };
    let file = open();
    file.write_at(&[1; 2 * PAGE], 0).unwrap();
    let pins = owned_pins(&file, 0);
    drop(file);
    is_broken.store(false, Ordering::Relaxed);
    let file = open();
    let mut bytes = [1; 2 * PAGE];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    assert!(bytes == [0; 2 * PAGE]);
    for pin in &pins {
        assert!(**pin == [1; PAGE]);
    }
    drop((file, pins));
    support::assert_all_free(&cache);
}

#[test]
fn a_file_whose_pins_alone_are_left_is_closed() {
    let (first, second) = (cache(64), cache(64));
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file = first
        .open_with(&path, &OpenOptions::new().create())
        .unwrap();
    file.write_at(&[1; 2 * PAGE], 0).unwrap();
    let pins = owned_pins(&file, 1);
    drop(file);
    assert!(std::fs::read(&path).unwrap() == [1; 2 * PAGE]);
    // Its lock is free.
    for other in [&second, &first] {
        let file = other.open_with(&path, &writable()).unwrap();
        file.write_at(&[2; 2 * PAGE], 0).unwrap();
        drop(file);
        assert!(std::fs::read(&path).unwrap() == [2; 2 * PAGE]);
    }
    for pin in &pins {
        assert!(**pin == [1; PAGE]);
    }
    drop(pins);
    support::assert_all_free(&first);
}

#[test]
fn a_quiet_cache_has_written_what_it_was_at() {
    bounded("a quiet cache", || {
        let gate = Arc::new(Gate::new());
        let cache = cache(64);
        let (file, storage) = open_gated(&cache, &gate, 1);
        let _open = OpenAtEnd(&gate);
        file.write_at(&[1; PAGE], 0).unwrap();
        gate.wait_for(1);
        let is_written = |storage: &MemoryBackend| {
            let mut is_written = false;
            storage.modify(|bytes| is_written = *bytes == [1; PAGE]);
            is_written
        };
        std::thread::scope(|scope| {
            let quiet = scope.spawn(|| {
                let quiet = cache.quiesce().unwrap();
                assert!(is_written(&storage), "it is written still");
                cache.verify().unwrap();
                drop(quiet);
            });
            pagewell_testkit::wait::not_yet("it is at the gate still", || quiet.is_finished());
            gate.open();
            quiet.join().unwrap();
        });
        drop(file);
        support::assert_all_free(&cache);
    });
}

#[test]
fn a_hook_gets_no_quiet_cache() {
    bounded("an error", || {
        let cache = cache(64);
        let told = Arc::new(Mutex::new(None));
        let hook = {
            let (cache, told) = (cache.clone(), Arc::clone(&told));
            move |_, _| {
                let kind = cache.quiesce().map(drop).map_err(|error| error.kind());
                *told.lock().unwrap() = Some(kind);
                Ok(())
            }
        };
        let storage = MemoryBackend::writable(vec![0; PAGE]);
        let file = cache
            .open_backend_with(storage, "hooked", &writable().before_write(hook))
            .unwrap();
        file.write_at(&[1], 0).unwrap();
        // Of this thread, or of the cache's.
        file.sync_data().unwrap();
        assert_eq!(*told.lock().unwrap(), Some(Err(ErrorKind::Deadlock)));
    });
}

/// Neither a thread that has one, nor a backend that is called because one is wanted.
#[test]
fn who_has_a_quiet_cache_gets_no_other() {
    bounded("an error", || {
        let cache = cache(64);
        let quiet = cache.quiesce().unwrap();
        let other = cache.quiesce().map(drop);
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Deadlock);
        drop(quiet);
        let told = Arc::new(Mutex::new(None));
        let script = {
            let (cache, told) = (cache.clone(), Arc::clone(&told));
            move |operation: &Operation| {
                if matches!(operation, Operation::Write { .. }) {
                    let kind = cache.quiesce().map(drop).map_err(|error| error.kind());
                    *told.lock().unwrap() = Some(kind);
                }
                Fault::None
            }
        };
        let backend = FaultBackend::with_script(MemoryBackend::writable(Vec::new()), script);
        let file = cache.open_backend_with(backend, "asks", &writable());
        let file = file.unwrap();
        file.append(b"written by the thread of the cache").unwrap();
        pagewell_testkit::wait::until("it is written", || told.lock().unwrap().is_some());
        assert_eq!(*told.lock().unwrap(), Some(Err(ErrorKind::Deadlock)));
        // The thread goes on.
        drop(cache.quiesce().unwrap());
    });
}

#[test]
fn what_went_in_a_hook_is_closed_in_a_quiet_cache() {
    bounded("a file that is closed", || {
        let cache = cache(64);
        let (logged, log) = {
            let storage = Arc::new(MemoryBackend::writable(Vec::new()));
            let log = cache.open_backend_with(Arc::clone(&storage), "log", &writable());
            (storage, Arc::new(Mutex::new(Some(log.unwrap()))))
        };
        let hook = {
            let log = Arc::clone(&log);
            move |_, _| {
                if let Some(log) = log.lock().unwrap().take() {
                    // One that is not the last, and then the last.
                    drop(log.clone());
                    log.append(b"a page")?;
                }
                Ok(())
            }
        };
        let storage = MemoryBackend::writable(vec![0; PAGE]);
        let file = cache
            .open_backend_with(storage, "hooked", &writable().before_write(hook))
            .unwrap();
        file.write_at(&[1], 0).unwrap();
        file.sync_data().unwrap();
        assert!(log.lock().unwrap().is_none());
        drop(cache.quiesce().unwrap());
        assert_eq!(Arc::strong_count(&logged), 1, "a closed file is open");
        let mut bytes = Vec::new();
        logged.modify(|stored| bytes.clone_from(stored));
        assert_eq!(bytes, b"a page");
        drop(file);
        support::assert_all_free(&cache);
    });
}

/// A hook opens the log, appends to it and closes it, each time. The thread of the cache, to which that is left, is in the
/// storage of the log with what it has seen of it when the next record comes.
#[test]
fn what_goes_in_a_hook_while_the_file_is_being_saved_is_saved_too() {
    bounded("a log that is closed", || {
        let gate = Arc::new(Gate::new());
        let cache = cache(64);
        let logged = Arc::new(MemoryBackend::writable(Vec::new()));
        let hook = {
            let (cache, logged, gate) = (cache.clone(), Arc::clone(&logged), Arc::clone(&gate));
            move |_, lsn| {
                let gate = Arc::clone(&gate);
                let late = FaultBackend::with_script(Arc::clone(&logged), move |operation| {
                    if matches!(operation, Operation::SyncAll | Operation::SyncData) {
                        gate.pass();
                    }
                    Fault::None
                });
                let manual = OpenOptions::new().writeback(Writeback::Manual);
                let log = cache.open_backend_with(late, "log", &manual);
                log.unwrap().append(&[lsn as u8])?;
                Ok(())
            }
        };
        let manual = writable().writeback(Writeback::Manual).before_write(hook);
        let storage = MemoryBackend::writable(vec![0; PAGE]);
        let file = cache.open_backend_with(storage, "hooked", &manual).unwrap();
        let _open = OpenAtEnd(&gate);
        for lsn in 1..=2 {
            file.write_at_lsn(&[1], 0, lsn).unwrap();
            file.sync_data().unwrap();
            gate.wait_for(1);
        }
        gate.open();
        drop(cache.quiesce().unwrap());
        assert_eq!(Arc::strong_count(&logged), 2, "a closed file is open");
        let mut bytes = Vec::new();
        logged.modify(|stored| bytes.clone_from(stored));
        assert_eq!(bytes, [1, 2], "what was appended in hooks");
        // The hook has it, and the options have the hook.
        drop((file, manual));
        assert_eq!(Arc::strong_count(&logged), 1);
        support::assert_all_free(&cache);
    });
}

/// A thread's variable has a file, whose last handle goes in the destructor of that variable: when those of others, which
/// the thread has used since, have run already.
#[test]
fn a_file_is_closed_by_a_thread_that_ends() {
    thread_local! {
        static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    bounded("a thread that ends", || {
        let cache = cache(64);
        let nr_asked = Arc::new(AtomicU64::new(0));
        let storage = Arc::new(MemoryBackend::writable(vec![0; PAGE]));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                KEPT.with(|kept| {
                    let nr_asked = Arc::clone(&nr_asked);
                    let hook = move |_, _| {
                        nr_asked.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    };
                    let manual = writable().writeback(Writeback::Manual).before_write(hook);
                    let file = cache.open_backend_with(Arc::clone(&storage), "kept", &manual);
                    let file = file.unwrap();
                    file.write_at(&[1], 0).unwrap();
                    file.sync_data().unwrap();
                    file.write_at(&[2], 0).unwrap();
                    *kept.borrow_mut() = Some(Box::new(file));
                });
            });
        });
        // A scope ends when the closures of its threads have, and their variables may be there still.
        pagewell_testkit::wait::until("the file is closed", || Arc::strong_count(&storage) == 1);
        assert_eq!(nr_asked.load(Ordering::Relaxed), 2);
        storage.modify(|bytes| assert_eq!(bytes[0], 2));
    });
}

/// A file whose storage takes its time to be closed.
#[derive(Debug)]
struct ClosedLate {
    file: FileBackend,
    gate: Arc<Gate>,
}

impl Drop for ClosedLate {
    fn drop(&mut self) {
        self.gate.pass();
    }
}

impl Backend for ClosedLate {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.file.read_at(bufs, pos)
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn id(&self) -> FileId {
        self.file.id()
    }
    fn is_writable(&self) -> bool {
        true
    }
    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.file.write_at(bufs, pos)
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// The file is locked still, by this cache, which does not have it open any more: the open is not refused. Others do not
/// wait for it.
#[test]
fn who_opens_a_file_that_is_just_being_closed_waits_for_that() {
    bounded("files that are opened", || {
        let cache = cache(64);
        let dir = pagewell_testkit::scratch::dir();
        let path = dir.path().join("file");
        let gate = Arc::new(Gate::new());
        let backend = ClosedLate {
            file: FileBackend::open_writable(&path, &FileOptions::new().create()).unwrap(),
            gate: Arc::clone(&gate),
        };
        let file = cache.open_backend_with(backend, &path, &writable());
        let file = file.unwrap();
        file.append(b"all").unwrap();
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            scope.spawn(move || drop(file));
            gate.wait_for(1);
            let openers = [(); 2].map(|()| {
                scope.spawn(|| {
                    let file = cache.open_with(&path, &writable()).unwrap();
                    file.append(b"!").unwrap();
                    file
                })
            });
            pagewell_testkit::wait::not_yet("the file is being closed", || {
                openers.iter().any(|opener| opener.is_finished())
            });
            let other = dir.path().join("other");
            drop(cache.open_with(other, &writable().create()).unwrap());
            gate.open();
            // Both have it before either closes it.
            drop(openers.map(|opener| opener.join().unwrap()));
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"all!!");
        support::assert_all_free(&cache);
    });
}

/// Threads open, change and close the same two files, which are written back and evicted meanwhile, and are locked by this cache
/// or by nobody.
#[test]
fn files_that_are_closed_and_opened_at_once_are_never_busy() {
    const NR_ROUNDS: u64 = 400;
    bounded("files that are opened", || {
        let cache = cache(64);
        let dir = pagewell_testkit::scratch::dir();
        let paths = [0, 1].map(|nr| dir.path().join(nr.to_string()));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let evictor = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    cache.reclaim(usize::MAX);
                    std::thread::yield_now();
                }
            });
            let openers = [0_u64, 1, 2].map(|thread| {
                let (cache, paths) = (&cache, &paths);
                scope.spawn(move || {
                    for round in 0..NR_ROUNDS {
                        let path = &paths[((round + thread) % 5 / 4) as usize];
                        let file = cache.open_with(path, &OpenOptions::new().create());
                        let file = file.unwrap();
                        let at = thread * PAGE as u64;
                        if file.size() > at {
                            let mut bytes = [0; 8];
                            file.read_at(&mut bytes, at).unwrap();
                            assert!(u64::from_le_bytes(bytes) <= round, "of another thread");
                        }
                        file.write_at(&round.to_le_bytes(), at).unwrap();
                        // With pins that outlive it now and then.
                        let pin = (round % 7 == 0).then(|| file.pin_owned(thread).unwrap());
                        drop(file);
                        drop(pin);
                    }
                })
            });
            let results = openers.map(|opener| opener.join());
            is_done.store(true, Ordering::Relaxed);
            evictor.join().unwrap();
            for result in results {
                result.unwrap();
            }
        });
        support::assert_all_free(&cache);
        for path in &paths {
            // Nobody has its lock any more.
            drop(support::cache(64).open_with(path, &writable()).unwrap());
        }
    });
}

/// A backend whose end closes a file.
struct Closing(Arc<MemoryBackend>, Arc<Mutex<Option<File>>>);

impl std::fmt::Debug for Closing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closing").finish_non_exhaustive()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(self.1.lock().unwrap().take());
    }
}

impl Backend for Closing {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.0.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn id(&self) -> FileId {
        self.0.id()
    }
}

/// A second backend of a file that is open is dropped, which may take any time, and may close the handle that kept the file open.
/// Its pages were given back then: the new handle's share was counted after the backend had gone.
#[test]
fn what_is_open_stays_open_while_a_second_backend_of_it_is_dropped() {
    let cache = cache(64);
    let storage = Arc::new(MemoryBackend::new(vec![7; PAGE]));
    let first = Arc::new(Mutex::new(None));
    let file = cache.open_backend(Arc::clone(&storage), "twice").unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, 0).unwrap();
    *first.lock().unwrap() = Some(file);
    let second = Closing(storage, Arc::clone(&first));
    let file = cache.open_backend(second, "twice").unwrap();
    assert!(
        first.lock().unwrap().is_none(),
        "the backend is there still"
    );
    file.read_at(&mut byte, 0).unwrap();
    assert_eq!((byte, cache.stats().nr_fills), ([7], 1));
}

/// An engine that was dropped while its thread completed a read kept the thread, the ring and the event for ever.
#[test]
fn engines_end_with_their_caches() {
    if !pagewell_testkit::alone("closing::engines_end_with_their_caches") {
        return;
    }
    /// How many descriptors of rings and events, and how many threads the process has.
    fn held() -> (usize, usize) {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        let is_of_ring = |link: &std::path::PathBuf| {
            let name = link.to_string_lossy();
            name.contains("io_uring") || name.contains("eventfd")
        };
        let nr_threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        (links.filter(is_of_ring).count(), nr_threads)
    }
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let engine = pagewell::Cache::builder().build().unwrap().info().engine;
    if engine != "uring" {
        pagewell_testkit::skip::skipped("there is no io_uring");
        return;
    }
    let before = held();
    for round in 0..200 {
        let cache = pagewell::Cache::builder()
            .capacity(4 << 20)
            .build()
            .unwrap();
        let file = cache.open(&path).unwrap();
        // It keeps the frames.
        let pin = (round % 8 == 0).then(|| file.pin_owned(1).unwrap());
        file.prefetch(&[0..1 << 19, 1 << 19..1 << 20]).unwrap();
        drop(file);
        drop(cache);
        assert_eq!(held().0, before.0);
        drop(pin);
    }
    // Threads for blocking calls are not joined, and end when they see that.
    pagewell_testkit::wait::until("the threads end", || held() == before);
}

/// Storage whose syncs give the errors of `next`, one after the other.
fn failing_syncs(
    next: impl Fn() -> Option<io::ErrorKind> + Send + Sync + 'static,
) -> FaultBackend<MemoryBackend> {
    FaultBackend::with_script(MemoryBackend::writable(vec![1; 100]), move |operation| {
        match operation {
            Operation::SyncData | Operation::SyncAll => match next() {
                Some(kind) => Fault::Fail(kind.into()),
                None => Fault::None,
            },
            _ => Fault::None,
        }
    })
}

/// Symptom: a loss of 0 KiB was reported for a file to which nothing was written.
#[test]
#[allow(unsafe_code)] // Standard error goes to a file.
fn loss_is_reported_only_of_what_was_written() {
    use std::os::fd::AsRawFd;

    if !pagewell_testkit::alone("closing::loss_is_reported_only_of_what_was_written") {
        return;
    }
    let told = tempfile::NamedTempFile::new().unwrap();
    // SAFETY: both descriptors are open.
    assert_eq!(unsafe { libc::dup2(told.as_raw_fd(), 2) }, 2);
    let cache = Cache::builder()
        .close_timeout(std::time::Duration::ZERO)
        .build()
        .unwrap();
    let work: [fn(&File); 4] = [
        |_| (),
        |file| {
            file.read_at(&mut [0; 10], 0).unwrap();
            file.sync_data().unwrap_err();
        },
        |file| assert_eq!(file.write_at(b"bytes", 0).unwrap(), 5),
        |file| file.set_size(50).unwrap(),
    ];
    for (work, is_lost) in work.into_iter().zip([false, false, true, true]) {
        let backend = failing_syncs(|| Some(io::ErrorKind::Other));
        let options = OpenOptions::new().write();
        let file = cache.open_backend_with(backend, "file", &options).unwrap();
        work(&file);
        let before = told.as_file().metadata().unwrap().len();
        drop(file);
        let after = told.as_file().metadata().unwrap().len();
        assert_eq!(after > before, is_lost);
    }
}

/// The system may have dropped a page that it could not write.
#[test]
fn interrupted_sync_is_repeated_with_all_that_was_written() {
    for (nr_interrupted, is_given_up) in [(3, false), (150, true)] {
        let left = AtomicUsize::new(nr_interrupted);
        let backend = Arc::new(failing_syncs(move || {
            let less = |nr: usize| nr.checked_sub(1);
            let is_left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            is_left.ok().map(|_| io::ErrorKind::Interrupted)
        }));
        let cache = Cache::builder().build().unwrap();
        let options = OpenOptions::new().writeback(Writeback::Manual);
        let storage = Arc::clone(&backend);
        let file = cache.open_backend_with(storage, "file", &options).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        let result = file.sync_data();
        match is_given_up {
            false => result.unwrap(),
            true => {
                let error = io::Error::from(result.unwrap_err());
                assert_eq!(error.kind(), io::ErrorKind::Interrupted);
            }
        }
        assert_eq!(backend.nr_sync_datas(), backend.nr_writes());
        file.close().map_err(|(_, error)| error).unwrap();
    }

    // Interrupted before the last page is written.
    let left = AtomicUsize::new(2);
    let backend = Arc::new(FaultBackend::with_script(
        MemoryBackend::writable(Vec::new()),
        move |operation| match operation {
            Operation::Write { pos: 8192.., .. } => {
                let less = |nr: usize| nr.checked_sub(1);
                match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
                    Ok(_) => Fault::Fail(io::ErrorKind::Interrupted.into()),
                    Err(_) => Fault::None,
                }
            }
            _ => Fault::None,
        },
    ));
    let cache = Cache::builder().build().unwrap();
    let options = OpenOptions::new().writeback(Writeback::Manual);
    let storage = Arc::clone(&backend);
    let file = cache.open_backend_with(storage, "file", &options).unwrap();
    for page in [0, 2, 4] {
        file.write_at(b"bytes", page * PAGE as u64).unwrap();
    }
    file.sync_data().unwrap();
    assert_eq!(file.stats().nr_dirty, 0);
    assert_eq!(backend.nr_writes(), 5);
    // No handle reports what has passed.
    file.sync_data().unwrap();
    file.close().map_err(|(_, error)| error).unwrap();
}
