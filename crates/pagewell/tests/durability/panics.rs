//! Hooks and storages that panic, or fail where a panic must not be the worse: nothing that was written is taken for durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell::io::{Backend, VolatileDevice};
use pagewell::{ErrorKind, OpenOptions};
use pagewell_testkit::wait;

use crate::storage::{contents, manual, open_scripted, stored};
use crate::support::{PAGE, cache};

/// A hook panicked when its page was marked as written already: the next sync made the page clean, which the storage
/// had never been given. Now pages on their way are dirty again whatever ends it.
#[test]
fn a_hook_that_panics_leaves_the_pages_dirty() {
    let cache = cache(64);
    let panics = Arc::new(AtomicBool::new(true));
    let hook = {
        let panics = Arc::clone(&panics);
        move |_, _| {
            assert!(!panics.load(Ordering::Relaxed), "made to panic");
            Ok(())
        }
    };
    let (file, backend, _) = open_scripted(&cache, &[], &manual().before_write(hook));
    file.append(&[1; 3 * PAGE]).unwrap();
    let sync = std::panic::AssertUnwindSafe(|| file.sync_data());
    assert!(std::panic::catch_unwind(sync).is_err());
    panics.store(false, Ordering::Relaxed);
    file.sync_data().unwrap();
    assert_eq!(stored(backend), [1; 3 * PAGE]);
}

/// A hook that panicked in the background took the thread with it, and nothing was written back any more.
#[test]
fn a_panic_in_the_background_does_not_end_it() {
    let cache = cache(64);
    let nr_calls = Arc::new(AtomicUsize::new(0));
    let hook = {
        let nr_calls = Arc::clone(&nr_calls);
        move |_, _| {
            assert_ne!(nr_calls.fetch_add(1, Ordering::Relaxed), 0, "made to panic");
            Ok(())
        }
    };
    let options = OpenOptions::new().write().before_write(hook);
    let (file, backend, _) = open_scripted(&cache, &[], &options);
    file.append(b"all").unwrap();
    wait::until("it is written back", || backend.size().unwrap() == 3);
    assert_eq!(nr_calls.load(Ordering::Relaxed), 2);
}

/// A file of a device, of which one call goes wrong.
#[derive(Debug)]
struct Once {
    file: pagewell::io::VolatileFile,
    device: VolatileDevice,
    what: What,
    is_due: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A write is done, and panics.
    WritePanics,
    /// Early writeback fails as a sync does.
    BeginSyncFails,
    /// The same, and panics.
    BeginSyncPanics,
}

impl Once {
    fn new(device: &VolatileDevice, what: What) -> Self {
        Self {
            file: device.open("file").unwrap(),
            device: device.clone(),
            what,
            is_due: true.into(),
        }
    }

    fn is_due(&self) -> bool {
        self.is_due.swap(false, Ordering::Relaxed)
    }
}

impl Backend for Once {
    fn read_at(&self, bufs: &[pagewell::io::RacyBytes<'_>], pos: u64) -> std::io::Result<usize> {
        self.file.read_at(bufs, pos)
    }
    fn size(&self) -> std::io::Result<u64> {
        self.file.size()
    }
    fn id(&self) -> pagewell::io::FileId {
        self.file.id()
    }
    fn is_writable(&self) -> bool {
        true
    }
    fn write_at(&self, bufs: &[pagewell::io::RacySource<'_>], pos: u64) -> std::io::Result<()> {
        self.file.write_at(bufs, pos)?;
        assert!(
            self.what != What::WritePanics || !self.is_due(),
            "made to panic"
        );
        Ok(())
    }
    fn set_size(&self, size: u64) -> std::io::Result<()> {
        self.file.set_size(size)
    }
    fn begin_sync(&self, _: std::ops::Range<u64>) -> std::io::Result<()> {
        if self.what == What::WritePanics || !self.is_due() {
            return Ok(());
        }
        self.device.fail_next_sync(1);
        let failed = self.file.sync_data();
        assert!(self.what != What::BeginSyncPanics, "made to panic");
        failed
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }
    fn sync_all(&self) -> std::io::Result<()> {
        self.file.sync_all()
    }
}

fn device(seed: u64) -> VolatileDevice {
    let device = VolatileDevice::new(seed);
    drop(device.create("file").unwrap());
    device.sync_dir().unwrap();
    device
}

/// A page was given to the storage; then early writeback of another one failed, of which nothing may be concluded, as of a
/// sync that failed. Only the pages of that request were given again; and if it panicked, the first page was taken for
/// durable later still.
#[test]
fn what_was_given_before_early_writeback_failed_is_given_again() {
    for what in [What::BeginSyncFails, What::BeginSyncPanics] {
        for seed in 0..16 {
            let device = device(seed);
            // Early writeback begins with 4 MiB, when there is more.
            const NR_PAGES: usize = (4 << 20) / PAGE;
            let cache = cache(5 * NR_PAGES as u64);
            let backend = Once::new(&device, what);
            let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
            file.append(&[1; PAGE]).unwrap();
            file.flush(0..u64::MAX).unwrap();
            file.append(&[2; NR_PAGES * PAGE]).unwrap();
            // Apart from it: the storage begins with the one when the other one is there.
            let last = (NR_PAGES + 2) * PAGE;
            file.write_at(&[3; PAGE], last as u64).unwrap();
            let failed = catch_unwind(AssertUnwindSafe(|| file.sync_data()));
            assert_eq!(failed.is_err(), what == What::BeginSyncPanics);
            assert!(!matches!(failed, Ok(Ok(()))), "the storage has failed");
            // What it has is not known, and the page is dirty.
            assert_eq!(file.discard(0..1).unwrap_err().kind(), ErrorKind::Io);
            file.sync_data().unwrap();
            let bytes = stored(device.crash(seed).open("file").unwrap());
            let mut expected = vec![2; last + PAGE];
            expected[..PAGE].fill(1);
            expected[last - PAGE..last].fill(0);
            expected[last..].fill(3);
            assert!(bytes == expected, "seed {seed}");
        }
    }
}

/// A page reached the storage, which panicked then. It was discarded, and read from there, where it was not durable; the sync
/// failed, and there was nothing left to be given again.
#[test]
fn what_a_write_that_panicked_has_done_is_durable_before_it_is_discarded() {
    for seed in 0..8 {
        let device = device(seed);
        let cache = cache(64);
        let first = device.open("file").unwrap();
        let file = cache.open_backend_with(first, "file", &manual()).unwrap();
        file.append(&[1; PAGE]).unwrap();
        drop(file);
        let backend = Once::new(&device, What::WritePanics);
        let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
        file.write_at(&[2; PAGE], 0).unwrap();
        let flush = AssertUnwindSafe(|| file.flush(0..u64::MAX));
        assert!(catch_unwind(flush).is_err());
        file.discard(0..PAGE as u64).unwrap();
        let seen = contents(&file);
        device.fail_next_sync(1);
        file.write_at(&[7], PAGE as u64).unwrap();
        file.sync_data().unwrap_err();
        file.set_size(PAGE as u64).unwrap();
        file.sync_data().unwrap();
        assert!(stored(device.crash(seed).open("file").unwrap()) == seen);
    }
}
