//! Each call of the storage fails, in each way, at each place of a history that makes all of them: every error is
//! told, nothing is lost, and when the storage works again the next sync makes everything durable.

use std::sync::Arc;
use std::time::Duration;

use pagewell::io::{Fault, MemoryBackend, Operation, VolatileDevice};
use pagewell::{ErrorKind, File};
use pagewell_crash::Way;
use pagewell_testkit::content;

use crate::storage::{EIO, Script, contents, errno, manual, open_scripted, stored};
use crate::support::{PAGE, assert_all_free, cache};

/// The ways in which one call fails.
const WAYS: [Way; 4] = [Way::Fail, Way::DoneThenFail, Way::Short(128), Way::Full];

/// A file and what it should hold.
pub(crate) struct Twin<'f> {
    file: &'f File,
    bytes: Vec<u8>,
    nr_errors: usize,
}

impl<'f> Twin<'f> {
    /// `file`, which holds `bytes`.
    pub(crate) fn new(file: &'f File, bytes: Vec<u8>) -> Self {
        Self {
            file,
            bytes,
            nr_errors: 0,
        }
    }

    /// What the file should hold when nothing has failed.
    pub(crate) fn bytes_without_errors(self) -> Vec<u8> {
        assert_eq!(self.nr_errors, 0);
        self.bytes
    }

    fn write(&mut self, pos: usize, bytes: &[u8]) {
        let written = match self.file.write_at(bytes, pos as u64) {
            Ok(written) => written,
            Err(error) => {
                self.check_error(&error);
                return;
            }
        };
        let end = pos + written;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[pos..end].copy_from_slice(&bytes[..written]);
    }

    fn set_len(&mut self, len: usize) {
        if let Err(error) = self.file.set_size(len as u64) {
            self.check_error(&error);
            // The old size, or the new one.
            let now = self.file.size() as usize;
            assert!(now == len || now == self.bytes.len(), "{now}");
        }
        self.bytes.resize(self.file.size() as usize, 0);
    }

    fn sync(&mut self) {
        if let Err(error) = self.file.sync_data() {
            self.check_error(&error);
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.file.flush(0..u64::MAX) {
            self.check_error(&error);
        }
    }

    fn check_error(&mut self, error: &pagewell::Error) {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        self.nr_errors += 1;
    }

    /// Makes every kind of call.
    pub(crate) fn go(&mut self) {
        self.write(10, &content(1, 100));
        self.write(5 * PAGE - 10, &content(2, PAGE));
        self.flush();
        self.write(0, &content(3, 2 * PAGE));
        self.sync();
        self.set_len(3 * PAGE + 17);
        self.flush();
        self.set_len(6 * PAGE);
        self.sync();
        self.write(9 * PAGE + 1, &content(4, 3 * PAGE));
        self.flush();
        self.set_len(PAGE + 1);
        self.sync();
        self.write(2 * PAGE, &content(5, 9));
    }
}

#[test]
fn every_call_fails_once_in_every_way() {
    let cache = cache(64);
    for way in WAYS {
        for at in 0.. {
            let old = content(9, 3 * PAGE + 5);
            let (file, backend, script) = open_scripted(&cache, &old, &manual());
            let mut nr = 0;
            let has_failed = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let failed = Arc::clone(&has_failed);
            script.set(move |operation| {
                // Sizes are asked for only after a failure.
                nr += usize::from(*operation != Operation::Size);
                if nr == at + 1 && *operation != Operation::Size {
                    failed.store(true, std::sync::atomic::Ordering::Relaxed);
                    return way.fault(operation);
                }
                Fault::None
            });
            let mut twin = Twin::new(&file, old);
            twin.go();
            let has_failed = has_failed.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(twin.nr_errors, usize::from(has_failed), "{way:?} at {at}");
            let expected = twin.bytes;
            assert_eq!(contents(&file), expected, "{way:?} at {at}: read");
            script.heal();
            file.sync_all().expect("the storage works again");
            assert_eq!(
                stored(Arc::clone(&backend)),
                expected,
                "{way:?} at {at}: stored"
            );
            assert_eq!(cache.reclaim(usize::MAX), expected.len().div_ceil(PAGE));
            assert_eq!(contents(&file), expected, "{way:?} at {at}: read anew");
            drop(file);
            assert_all_free(&cache);
            if !has_failed {
                assert!(at > 8, "the history makes many calls");
                break;
            }
        }
    }
}

#[test]
fn the_storage_fails_for_a_while_and_then_works() {
    for way in WAYS {
        let cache = cache(64);
        let (file, backend, script) = open_scripted(&cache, &[], &manual());
        let mut twin = Twin::new(&file, Vec::new());
        // Not even the size is told.
        script.set(move |operation| match operation {
            Operation::Size => Fault::Fail(errno(EIO)),
            _ => way.fault(operation),
        });
        twin.write(0, &content(1, 3 * PAGE + 100));
        twin.flush();
        twin.sync();
        twin.write(2 * PAGE, &content(2, 5));
        twin.flush();
        assert_eq!(twin.nr_errors, 3);
        let mut expected = twin.bytes;
        assert_eq!(contents(&file), expected);
        script.heal();
        // What was cut off must not come back, though the storage may have got it.
        file.set_size(2 * PAGE as u64 + 3).expect("works again");
        expected.truncate(2 * PAGE + 3);
        file.sync_data().expect("works again");
        assert_eq!(stored(Arc::clone(&backend)), expected, "{way:?}");
    }
}

#[test]
fn a_full_storage_keeps_everything_dirty_until_there_is_room() {
    let cache = cache(64);
    let script = Script::default();
    let backend = script.on(MemoryBackend::writable_up_to(2 * PAGE, Vec::new()));
    let file = cache
        .open_backend_with(Arc::clone(&backend), "full", &manual())
        .unwrap();
    let bytes = content(1, 4 * PAGE);
    file.append(&bytes).unwrap();
    for _ in 0..3 {
        let error = file.sync_data().unwrap_err();
        assert_eq!(
            std::io::Error::from(error).kind(),
            std::io::ErrorKind::StorageFull
        );
        assert_eq!(contents(&file), bytes);
        assert_eq!(cache.reclaim(usize::MAX), 0, "nothing dirty is evicted");
    }
    // Room is made by cutting the file.
    file.set_size(PAGE as u64 + 1).unwrap();
    file.sync_data().unwrap();
    assert_eq!(stored(Arc::clone(&backend)), bytes[..=PAGE]);
}

#[test]
fn a_late_write_stops_neither_readers_nor_writers() {
    pagewell_testkit::wait::bounded_by(Duration::from_secs(20), "late writes", || {
        let cache = cache(64);
        let (file, backend, script) = open_scripted(&cache, &[], &manual());
        file.append(&[1; 2 * PAGE]).unwrap();
        let gate = Arc::new(pagewell_testkit::wait::Gate::new());
        let held = Arc::clone(&gate);
        script.set(move |operation| {
            if matches!(operation, Operation::Write { .. }) {
                held.pass();
            }
            Fault::None
        });
        std::thread::scope(|scope| {
            let _open = pagewell_testkit::wait::OpenAtEnd(&gate);
            let syncer = scope.spawn(|| file.sync_data());
            gate.wait_for(1);
            file.write_at(&[2; PAGE], 100).unwrap();
            file.append(&[3; 10]).unwrap();
            let mut now = vec![1; 2 * PAGE];
            now[100..100 + PAGE].fill(2);
            now.extend([3; 10]);
            assert_eq!(contents(&file), now);
            gate.open();
            syncer.join().unwrap().unwrap();
            // The storage got what was there when it was given, untorn.
            assert_eq!(stored(Arc::clone(&backend))[..2 * PAGE], [1; 2 * PAGE]);
            assert_eq!(
                cache.reclaim(usize::MAX),
                0,
                "what was written since is dirty"
            );
            file.sync_data().unwrap();
            assert_eq!(stored(Arc::clone(&backend)), now);
        });
    });
}

#[test]
fn after_a_failed_sync_the_next_one_writes_again() {
    for seed in 0..50 {
        let device = VolatileDevice::new(seed);
        let cache = cache(64);
        let script = Script::default();
        let backend = script.on(device.create("file").unwrap());
        let file = cache
            .open_backend_with(Arc::clone(&backend), "volatile", &manual())
            .unwrap();
        file.append(&content(1, 3 * PAGE)).unwrap();
        file.sync_data().unwrap();
        let bytes = content(2, 5 * PAGE);
        file.write_at(&bytes, 0).unwrap();
        // Given to the storage before, too: that it has it does not mean that it keeps it.
        file.flush(0..3 * PAGE as u64).unwrap();
        device.fail_next_sync(1);
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(cache.reclaim(usize::MAX), 0);
        assert_eq!(contents(&file), bytes);
        let nr_writes = backend.nr_writes();
        file.sync_data().unwrap();
        assert!(backend.nr_writes() > nr_writes, "written again");
        let after = device.crash(seed).open("file").unwrap();
        assert_eq!(stored(after), bytes, "seed {seed}");
    }
}

#[test]
fn every_handle_is_told_of_an_error_once() {
    let cache = cache(64);
    let (file, _, script) = open_scripted(&cache, &[], &manual());
    let others = [file.clone(), file.clone()];
    file.append(b"x").unwrap();
    script.set(|operation| match operation {
        Operation::SyncData => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
    script.heal();
    file.sync_data().expect("was told");
    for other in &others {
        assert_eq!(other.sync_data().unwrap_err().kind(), ErrorKind::Io);
        other.sync_data().expect("was told");
        other.flush(0..u64::MAX).expect("was told");
    }
    file.clone().sync_data().expect("opened later");
}

#[test]
fn a_failure_to_read_before_a_partial_write_changes_nothing() {
    let cache = cache(64);
    let old = content(1, 3 * PAGE);
    let (file, backend, script) = open_scripted(&cache, &old, &manual());
    script.set(|operation| match operation {
        Operation::Read { .. } => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    assert_eq!(file.write_at(b"x", 5).unwrap_err().kind(), ErrorKind::Io);
    file.write_at(&[7; PAGE], PAGE as u64)
        .expect("a whole page is not read");
    script.heal();
    file.sync_data().unwrap();
    let mut expected = old;
    expected[PAGE..2 * PAGE].fill(7);
    assert_eq!(contents(&file), expected);
    assert_eq!(stored(backend), expected);
}
