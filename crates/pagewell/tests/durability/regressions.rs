//! What was once wrong. Each test begins with its story.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pagewell::io::{
    Backend, Fault, FaultBackend, FileBackend, FileOptions, MemoryBackend, Operation, RacyBytes,
    VolatileDevice,
};
use pagewell::{Cache, ErrorKind, File, OpenOptions};
use pagewell_testkit::wait::{self, Gate, OpenAtEnd};
use pagewell_testkit::{content, scratch};

use crate::storage::{EIO, Script, contents, errno, manual, open_scripted, stored};
use crate::support::{PAGE, assert_all_free, cache};

/// Options with a hook that refuses this page, until the flag says otherwise.
fn refusing_page(refused: u64) -> (Arc<AtomicBool>, OpenOptions) {
    let is_refusing = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&is_refusing);
    let hook = move |page, _| match page == refused && flag.load(Ordering::Relaxed) {
        true => Err(std::io::Error::other("not yet")),
        false => Ok(()),
    };
    (is_refusing, manual().before_write(hook))
}

/// A write of ten pages failed when the storage had some of them. The file was then cut to two pages, which nobody told
/// the storage, since as far as the cache knew it had none: opened again, the file had more than two, and
/// the bytes that were cut off were back. Now the storage is asked for its size after each failure.
#[test]
fn what_a_failed_write_has_left_past_the_end_is_cut() {
    for is_told in [true, false] {
        let cache = cache(64);
        let (file, backend, script) = open_scripted(&cache, &[], &manual());
        file.append(&content(1, 10 * PAGE)).unwrap();
        script.set(move |operation| match operation {
            Operation::Write { .. } => Fault::ShortThenFail {
                written: 5 * PAGE + 1,
                error: errno(EIO),
            },
            Operation::Size if !is_told => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        file.sync_data().unwrap_err();
        script.heal();
        file.set_size(2 * PAGE as u64).unwrap();
        assert_eq!(backend.size().unwrap(), 2 * PAGE as u64);
        file.sync_data().unwrap();
        assert_eq!(stored(backend), content(1, 10 * PAGE)[..2 * PAGE]);
    }
}

/// A write failed after the storage had done it, and the page, dirty again, was discarded: readers saw what the storage had,
/// which was not durable. The next sync failed, the storage dropped it, and the one after that succeeded. Now what
/// the storage may have is made durable before it is all that there is.
#[test]
fn what_a_failed_write_has_done_is_durable_before_it_is_discarded() {
    let device = VolatileDevice::new(1);
    drop(device.create("file").unwrap());
    device.sync_dir().unwrap();
    let cache = cache(64);
    let script = Script::default();
    let backend = script.on(device.open("file").unwrap());
    let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
    script.set(|operation| match operation {
        Operation::Write { .. } => Fault::DoneThenFail(errno(EIO)),
        _ => Fault::None,
    });
    file.append(&[1; PAGE]).unwrap();
    file.sync_data().unwrap_err();
    script.heal();
    file.discard(0..PAGE as u64).unwrap();
    let seen = contents(&file);
    for seed in 0..8 {
        let after = device.crash(seed);
        assert!(stored(after.open("file").unwrap()) == seen);
    }
}

/// A growth failed after the storage had done it; the next sync took it back, which failed after the storage had done it too,
/// and the storage did not tell its size. The cache went by the larger one, and the last page could not be read. Now
/// it goes by the size that the storage has in either case.
#[test]
fn a_growth_that_is_taken_back_and_fails_again_leaves_the_file_readable() {
    let cache = cache(64);
    let (file, backend, script) = open_scripted(&cache, &[7; 2 * PAGE - 1], &manual());
    script.set(|operation| match operation {
        Operation::SetSize { .. } => Fault::DoneThenFail(errno(EIO)),
        _ => Fault::None,
    });
    file.set_size(2 * PAGE as u64).unwrap_err();
    script.set(|operation| match operation {
        Operation::SetSize { .. } => Fault::DoneThenFail(errno(EIO)),
        Operation::Size => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    file.sync_data().unwrap_err();
    script.heal();
    assert!(contents(&file) == [7; 2 * PAGE - 1]);
    file.sync_data().unwrap();
    assert!(stored(backend) == [7; 2 * PAGE - 1]);
}

/// A growth failed after the storage had done it. The file kept its size, and the storage the other: after the next
/// sync, which succeeded, the file was opened with a size that it had never had. Now a sync sets the size if
/// the storage has another.
#[test]
fn a_growth_that_failed_halfway_does_not_last() {
    for is_told in [true, false] {
        let cache = cache(64);
        let (file, backend, script) = open_scripted(&cache, &[1; 100], &manual());
        script.set(move |operation| match operation {
            Operation::SetSize { .. } => Fault::DoneThenFail(errno(EIO)),
            Operation::Size if !is_told => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        file.set_size(5 * PAGE as u64).unwrap_err();
        assert_eq!(file.size(), 100);
        script.heal();
        file.sync_data().unwrap();
        assert_eq!(stored(backend), [1; 100]);
    }
}

/// A cut failed after the storage had done it. The file kept its size, and reads of what was cut off failed for ever.
/// Now the size is the one that the storage has.
#[test]
fn a_cut_that_was_done_and_failed_is_a_cut() {
    for (is_told, is_done) in [(true, true), (false, true), (false, false)] {
        let cache = cache(64);
        let (file, backend, script) = open_scripted(&cache, &[1; 3 * PAGE], &manual());
        assert_eq!(contents(&file), [1; 3 * PAGE]);
        script.set(move |operation| match operation {
            Operation::SetSize { .. } if is_done => Fault::DoneThenFail(errno(EIO)),
            Operation::SetSize { .. } => Fault::Fail(errno(EIO)),
            Operation::Size if !is_told => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        assert_eq!(file.set_size(100).unwrap_err().kind(), ErrorKind::Io);
        script.heal();
        assert_eq!(contents(&file), [1; 100]);
        // What was cut off does not come back.
        file.append(b"x").unwrap();
        file.set_size(2 * PAGE as u64).unwrap();
        let mut expected = vec![1; 100];
        expected.push(b'x');
        expected.resize(2 * PAGE, 0);
        file.sync_data().unwrap();
        cache.reclaim(usize::MAX);
        assert_eq!(contents(&file), expected);
        assert_eq!(stored(backend), expected);
    }
}

/// A clean page that was pinned to be changed was invalidated; when the guard was dropped it found no page to replace,
/// and what was written was gone without a word. Now such a page stays.
#[test]
fn an_invalidation_leaves_a_page_that_is_about_to_be_replaced() {
    let cache = cache(64);
    let (file, _, _) = open_scripted(&cache, &[1; PAGE], &manual());
    let mut page = file.pin_mut(0).unwrap();
    page.fill(2);
    file.invalidate(0..u64::MAX);
    assert_eq!(cache.reclaim(usize::MAX), 0);
    drop(page);
    assert_eq!(contents(&file), [2; PAGE]);
}

/// A page was discarded while it was on its way to the storage, and read again before it arrived there: the cache had
/// other bytes than the storage, until it was evicted. Now a discard waits for what is on its way.
#[test]
fn a_discard_waits_for_the_page_to_be_written() {
    wait::bounded("a discard", || {
        let cache = cache(64);
        let (file, _, script) = open_scripted(&cache, &[1; PAGE], &manual());
        file.write_at(&[2; PAGE], 0).unwrap();
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        script.set(move |operation| {
            if matches!(operation, Operation::Write { .. }) {
                held.pass();
            }
            Fault::None
        });
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            scope.spawn(|| file.flush(0..u64::MAX).unwrap());
            gate.wait_for(1);
            let discarder = scope.spawn(|| {
                file.discard(0..u64::MAX).unwrap();
                contents(&file)
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!discarder.is_finished());
            gate.open();
            assert_eq!(discarder.join().unwrap(), [2; PAGE]);
        });
        file.invalidate(0..u64::MAX);
        assert_eq!(contents(&file), [2; PAGE]);
    });
}

/// A page was written, and not durable, when it was discarded; then the sync failed, and there was nothing left to be
/// written again, though it had been written back and not discarded. Now a discard makes such pages durable first.
#[test]
fn a_discarded_page_that_failed_to_be_written_is_not_written_again() {
    for seed in 0..20 {
        let device = pagewell::io::VolatileDevice::new(seed);
        let cache = cache(64);
        let backend = device.create("file").unwrap();
        let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
        file.append(&[1; 2 * PAGE]).unwrap();
        file.flush(0..u64::MAX).unwrap();
        file.write_at(&[2; PAGE], 0).unwrap();
        device.fail_next_sync(1);
        assert_eq!(file.discard(0..1).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(contents(&file)[..PAGE], [2; PAGE], "nothing was dropped");
        file.sync_data().unwrap();
        file.write_at(&[4; PAGE], 0).unwrap();
        file.flush(0..u64::MAX).unwrap();
        file.write_at(&[3; PAGE], 0).unwrap();
        file.discard(0..1).unwrap();
        let mut expected = vec![4; PAGE];
        expected.extend([1; PAGE]);
        assert_eq!(contents(&file), expected);
        file.sync_data().unwrap();
        assert_eq!(stored(device.crash(seed).open("file").unwrap()), expected);
    }
}

/// After a sync had failed, a page was discarded, and read from the storage, which still had it in memory and had
/// forgotten that it was not durable: the next sync succeeded, and the bytes were lost. Found by `histories`. Now
/// dirty pages are not discarded before a sync has succeeded again.
#[test]
fn what_the_storage_has_after_a_failed_sync_is_not_believed() {
    for seed in 0..20 {
        let device = pagewell::io::VolatileDevice::new(seed);
        let cache = cache(64);
        let backend = device.create("file").unwrap();
        let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
        file.append(&[1; PAGE]).unwrap();
        device.fail_next_sync(1);
        file.sync_data().unwrap_err();
        assert_eq!(file.discard(0..1).unwrap_err().kind(), ErrorKind::Io);
        file.discard(PAGE as u64..u64::MAX).expect("nothing dirty");
        file.sync_data().unwrap();
        assert_eq!(stored(device.crash(seed).open("file").unwrap()), [1; PAGE]);
        let file = cache
            .open_backend_with(MemoryBackend::writable(vec![1]), "other", &manual())
            .unwrap();
        file.write_at(b"x", 0).unwrap();
        file.discard(0..1).unwrap();
        assert_eq!(contents(&file), [1]);
    }
}

/// A hook that wrote to a log made more dirty than may be, and was made to write pages back itself: those of its own
/// file too, whose lock it had. It waited for itself. Now who is in a hook is not throttled.
#[test]
fn a_hook_may_write_more_to_a_log_than_may_be_dirty() {
    wait::bounded("a hook", || {
        let cache = cache(64);
        let (log, _, _) = open_scripted(&cache, &[], &OpenOptions::new().write());
        let log = Arc::new(log);
        let hook = {
            let log = Arc::clone(&log);
            move |_, _| {
                for _ in 0..20 {
                    log.append(&[7; PAGE])?;
                }
                log.sync_data()?;
                Ok(())
            }
        };
        let options = OpenOptions::new().write().before_write(hook);
        let (file, backend, _) = open_scripted(&cache, &[], &options);
        for _ in 0..40 {
            file.append(&[1; PAGE]).unwrap();
        }
        file.sync_data().unwrap();
        assert_eq!(stored(backend), [1; 40 * PAGE]);
    });
}

/// One thread appended to a log, had too much dirty, and went to write a file back, with the lock of the log's size in
/// hand; another was writing that file back, and its hook appended to the log. Each waited for the other. Now
/// nobody is throttled with the lock of a size in hand.
#[test]
fn a_hook_may_append_to_a_log_that_others_append_to() {
    wait::bounded("hooks and appenders", || {
        let cache = cache(128);
        // So much is dirty all along that every write is throttled.
        let (full, _, _) = open_scripted(&cache, &[], &manual());
        full.write_at(&[1; 70 * PAGE], 0).unwrap();
        let (log, _, _) = open_scripted(&cache, &[], &OpenOptions::new().write());
        let log = Arc::new(log);
        let hook = {
            let log = Arc::clone(&log);
            move |_, _| Ok(_ = log.append(&[7; 100])?)
        };
        let options = OpenOptions::new().write().before_write(hook);
        let (file, _, _) = open_scripted(&cache, &[1; 8 * PAGE], &options);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..300_u64 {
                    file.write_at(&[2; PAGE], round % 8 * PAGE as u64).unwrap();
                    file.flush(0..u64::MAX).unwrap();
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                log.append(&[8; 3000]).unwrap();
            }
        });
    });
}

/// A sync of a file with a page that was kept from being written made nothing durable, also not at
/// the end of the program. Now it makes durable all the others before it says so.
#[test]
fn a_page_that_is_refused_keeps_no_other_from_being_synced() {
    let device = pagewell::io::VolatileDevice::new(1);
    let cache = cache(64);
    let backend = device.create("file").unwrap();
    let (is_refusing, options) = refusing_page(1);
    let file = cache.open_backend_with(backend, "file", &options).unwrap();
    file.append(&[1; 3 * PAGE]).unwrap();
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Refused);
    is_refusing.store(false, Ordering::Relaxed);
    let mut expected = vec![1; 3 * PAGE];
    expected[PAGE..2 * PAGE].fill(0);
    assert_eq!(stored(device.crash(1).open("file").unwrap()), expected);
}

/// A sync followed the end of the file: while somebody appended as fast as it wrote, it did not end.
#[test]
fn a_sync_ends_though_the_file_grows_all_the_time() {
    let cache = cache(256);
    let (file, backend, script) = open_scripted(&cache, &[], &manual());
    let file = Arc::new(file);
    file.append(&[1; PAGE]).unwrap();
    let appender = Arc::clone(&file);
    script.set(move |operation| {
        if matches!(operation, Operation::Write { .. }) {
            appender.append(&[2; PAGE]).unwrap();
        }
        Fault::None
    });
    file.sync_data().unwrap();
    assert_eq!(backend.nr_writes(), 1);
    script.heal();
}

/// A gap between the old end and what was written was made on the storage at once; if the write then failed for lack
/// of frames, the storage was longer than the file. Now it learns of the gap with the next sync.
#[test]
fn a_gap_is_zeros_for_good_though_nothing_was_told_to_the_storage() {
    let cache = cache(64);
    let (file, backend, _) = open_scripted(&cache, &[1; 100], &manual());
    file.write_at(b"x", 8 * PAGE as u64).unwrap();
    assert_eq!(backend.size().unwrap(), 100);
    let mut expected = vec![0; 8 * PAGE + 1];
    expected[..100].fill(1);
    expected[8 * PAGE] = b'x';
    assert_eq!(contents(&file), expected);
    cache.reclaim(usize::MAX);
    file.write_at(b"y", 3 * PAGE as u64 + 5).unwrap();
    expected[3 * PAGE + 5] = b'y';
    assert_eq!(contents(&file), expected);
    file.discard(8 * PAGE as u64..u64::MAX).unwrap();
    expected[8 * PAGE] = 0;
    file.sync_data().unwrap();
    assert_eq!(contents(&file), expected);
    assert_eq!(stored(backend), expected);
}

/// A cut failed, and the storage did not tell its size: the file was cut. A second cut failed, and the storage told
/// that it had all of the file still: that was taken for bytes of the file, and came back when the file grew. Found by
/// `pagewell crash-test simulated --seed 0x7fc5c54ccf7b4497 --histories 1`.
#[test]
fn a_second_cut_that_fails_does_not_bring_back_what_the_first_cut_off() {
    let cache = cache(64);
    let (file, backend, script) = open_scripted(&cache, &[1; 3 * PAGE], &manual());
    let mut nr_calls = 0;
    script.set(move |_| {
        nr_calls += 1;
        match nr_calls {
            // The first cut, the question for the size, the second cut.
            1..=3 => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        }
    });
    file.set_size(2 * PAGE as u64).unwrap_err();
    assert_eq!(file.size(), 2 * PAGE as u64);
    file.set_size(100).unwrap_err();
    let mut expected = vec![1; file.size() as usize];
    file.set_size(3 * PAGE as u64).unwrap();
    expected.resize(3 * PAGE, 0);
    assert_eq!(contents(&file), expected);
    file.sync_data().unwrap();
    assert_eq!(stored(backend), expected);
}

/// A new file could be written up to 64 MiB, since no more was reserved for it than for one that is read. Now that is
/// a terabyte.
#[test]
fn a_new_file_may_become_large() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache(64);
    let file = cache
        .open_with(&path, &OpenOptions::new().create_new())
        .unwrap();
    for pos in [100 << 20, 10 << 30] {
        file.write_at(b"far", pos).unwrap();
        file.sync_data().unwrap();
        let mut bytes = [1; 10];
        assert_eq!(file.read_at(&mut bytes, pos - 3).unwrap(), 6);
        assert_eq!(bytes[..6], *b"\0\0\0far");
    }
    let error = file.write_at(b"too far", 1 << 41).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
    file.set_size(10).unwrap();
    file.close().map_err(|(_, error)| error).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [0; 10]);
}

/// A failure in the background was not told by a sync that had another error to tell, and then not at all.
#[test]
fn a_failure_in_the_background_is_told_beside_other_errors() {
    let cache = cache(64);
    let (is_refusing, options) = refusing_page(0);
    is_refusing.store(false, Ordering::Relaxed);
    let (file, _, script) = open_scripted(&cache, &[], &options);
    let other = file.clone();
    file.append(&[1; PAGE]).unwrap();
    script.set(|operation| match operation {
        Operation::Write { .. } => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    other.flush(0..u64::MAX).unwrap_err();
    script.heal();
    is_refusing.store(true, Ordering::Relaxed);
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Refused);
    is_refusing.store(false, Ordering::Relaxed);
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
    file.sync_data().unwrap();
}

/// Each file that was opened for writing started a thread of its own for the whole cache. Now there is one.
#[test]
fn a_cache_has_one_thread_that_writes_back() {
    // The tests of one process have threads of this name for their caches.
    if !pagewell_testkit::alone("regressions::a_cache_has_one_thread_that_writes_back") {
        return;
    }
    let nr_threads = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.starts_with("pagewell-watch"))
            .count()
    };
    let cache = cache(1024);
    let files: Vec<_> = (0..100)
        .map(|_| open_scripted(&cache, &[], &OpenOptions::new().write()).0)
        .collect();
    for file in &files {
        file.append(&[1; PAGE]).unwrap();
    }
    pagewell_testkit::wait::until("the thread has started", || nr_threads() > 0);
    assert_eq!(nr_threads(), 1);
    drop(files);
}

/// The thread that writes back had a share of a file when its last handle was dropped: the thread was to make it durable,
/// later, and the program could end before. Now the last handle does it.
#[test]
fn what_was_written_is_durable_when_the_last_handle_is_dropped() {
    for _ in 0..20 {
        let cache = cache(64);
        let backend = Arc::new(MemoryBackend::writable(Vec::new()));
        let file = open(&cache, &backend);
        file.append(b"all").unwrap();
        let guard = file.pin_owned(0).unwrap();
        drop(file);
        assert_eq!(backend.nr_syncs(), 1);
        assert_eq!(stored(Arc::clone(&backend)), b"all");
        drop(guard);
        assert_all_free(&cache);
    }
}

fn open(cache: &Cache, backend: &Arc<MemoryBackend>) -> pagewell::File {
    let options = OpenOptions::new().write();
    cache
        .open_backend_with(Arc::clone(backend), "file", &options)
        .unwrap()
}

/// A file that the cache had open was opened again to be emptied, or to be made: neither happened, and that was
/// no error.
#[test]
fn opening_again_does_what_the_options_say() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache(64);
    let file = cache
        .open_with(&path, &OpenOptions::new().create_new())
        .unwrap();
    file.append(b"all").unwrap();
    let error = cache
        .open_with(&path, &OpenOptions::new().create_new())
        .unwrap_err();
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    cache
        .open_with(&path, &OpenOptions::new().truncate())
        .unwrap();
    assert_eq!(file.size(), 0);
}

/// A file was emptied, and then it turned out that it could not be opened that way.
#[test]
fn opening_that_fails_does_not_empty_the_file() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, b"all").unwrap();
    let cache = cache(64);
    let reader = cache.open(&path).unwrap();
    let error = cache
        .open_with(&path, &OpenOptions::new().truncate())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(reader);
    let error = cache
        .open_with(&path, &OpenOptions::new().truncate().page_size(3))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPageSize, "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"all");
}

/// The last page was given to the storage after an append had written to it, and before the file was as long: it was
/// taken for written, and the bytes past the old end were never given to the storage.
#[test]
fn an_append_to_a_last_page_that_is_being_flushed_is_not_lost() {
    let cache = cache(600);
    let (file, backend, _) = open_scripted(&cache, &[], &manual());
    let is_over = AtomicBool::new(false);
    let mut expected = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                file.flush(0..u64::MAX).unwrap();
            }
        });
        for round in 0..2000_u32 {
            if expected.len() > 200 * PAGE {
                file.set_size(0).unwrap();
                expected.clear();
            }
            let bytes = vec![round as u8 | 1; 20 * PAGE + 100];
            file.append(&bytes).unwrap();
            expected.extend(bytes);
            if round % 8 == 0 {
                file.sync_data().unwrap();
                let stored = stored(Arc::clone(&backend));
                if stored != expected {
                    is_over.store(true, Ordering::Relaxed);
                    let at = stored.iter().zip(&expected).position(|(a, b)| a != b);
                    panic!(
                        "round {round}: first differs at {at:?} of {}",
                        expected.len()
                    );
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Two pages of one word of the set of dirty pages: the second one's writer syncs while the first one is not put in whole.
#[test]
fn pages_of_one_word_are_synced_though_others_are_just_made_dirty() {
    let cache = cache(600);
    let (file, backend, _) = open_scripted(&cache, &[0; 130 * PAGE], &manual());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for page in [64_u64, 66, 67] {
            let (file, is_over) = (&file, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    file.write_at(&[9], page * PAGE as u64).unwrap();
                }
            });
        }
        let mut nr = 0_u64;
        let mut lost = None;
        while nr < 2000 && lost.is_none() {
            nr += 1;
            file.write_at(&nr.to_le_bytes(), 65 * PAGE as u64).unwrap();
            file.sync_data().unwrap();
            let mut bytes = [0; 8];
            backend
                .inner()
                .modify(|all| bytes.copy_from_slice(&all[65 * PAGE..][..8]));
            if u64::from_le_bytes(bytes) != nr {
                lost = Some(nr);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(lost, None, "a sync has left a page out, of {nr}");
    });
}

/// A failure that a discard has told of was told by the next sync again, which had succeeded.
#[test]
fn an_error_that_a_discard_has_told_of_is_not_told_again() {
    let cache = cache(64);
    let (file, _, script) = open_scripted(&cache, &[0; PAGE], &manual());
    file.write_at(&[1; PAGE], 0).unwrap();
    file.flush(0..u64::MAX).unwrap();
    script.set(|operation| match operation {
        Operation::SyncData => Fault::Fail(errno(EIO)),
        _ => Fault::None,
    });
    assert_eq!(file.discard(0..u64::MAX).unwrap_err().kind(), ErrorKind::Io);
    script.heal();
    file.sync_data().unwrap();
}

/// The truncation by opening was taken for durable, as the cache had given nothing to the storage.
#[test]
fn a_truncation_by_opening_is_durable_after_a_close() {
    let cache = cache(64);
    // As `FileBackend::open_writable` does before the mapping is made: a size that is not durable.
    let (file, backend, _) = open_scripted(&cache, &[1; 2 * PAGE], &manual());
    file.close().map_err(|(_, error)| error).unwrap();
    assert_eq!(backend.nr_sync_alls(), 1);
}

#[test]
fn a_file_changed_through_its_backend_is_synced_at_the_close() {
    type Change = fn(&FileBackend);
    let overwrites: Change = |file| {
        let words = [AtomicU64::new(5)];
        let bytes = RacyBytes::from_words(&words);
        file.write_at(&[bytes.into()], 0).unwrap();
    };
    let cuts: Change = |file| {
        file.set_size(0).unwrap();
        file.set_size(100).unwrap();
    };
    for change in [overwrites, cuts] {
        let file = scratch::file();
        std::fs::write(file.path(), [7; 100]).unwrap();
        let backend = FileBackend::open_writable(file.path(), &FileOptions::new()).unwrap();
        change(&backend);
        let backend = Arc::new(FaultBackend::with_script(backend, |_| Fault::None));
        let cache = cache(64);
        let options = manual();
        let file = cache.open_backend_with(Arc::clone(&backend), file.path(), &options);
        file.unwrap().close().map_err(|(_, error)| error).unwrap();
        assert_eq!(backend.nr_sync_alls(), 1);
    }
}

/// The sync covers what earlier processes have written.
#[test]
fn a_close_repeats_a_sync_that_has_failed() {
    let file = scratch::file();
    std::fs::write(file.path(), [7; 100]).unwrap();
    let backend = FileBackend::open_writable(file.path(), &FileOptions::new()).unwrap();
    let backend = Arc::new(FaultBackend::with_script(
        backend,
        |operation| match operation {
            Operation::SyncData => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        },
    ));
    let cache = cache(64);
    let options = manual();
    let file = cache
        .open_backend_with(Arc::clone(&backend), file.path(), &options)
        .unwrap();
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
    file.close().map_err(|(_, error)| error).unwrap();
    assert_eq!(backend.nr_sync_alls(), 1);
}

/// A close after reads alone used to make two syncs.
#[test]
fn a_file_that_was_only_read_is_closed_without_a_sync() {
    type Work = fn(&File);
    let reads: Work = |file| assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 10);
    let none: Work = |_| ();
    let writes: Work = |file| assert_eq!(file.write_at(b"bytes", 0).unwrap(), 5);
    let cut: Work = |file| file.set_size(0).unwrap();
    let found = || FileOptions::new();
    for (options, size, work, nr_syncs) in [
        (found(), 100, none, 0),
        (found(), 100, reads, 0),
        (found().create(), 100, reads, 0),
        (found(), 100, writes, 1),
        (found(), 100, cut, 1),
        (found().create().truncate(), 100, none, 1),
        // The opening may have created it.
        (found().create(), 0, none, 1),
    ] {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; size]).unwrap();
        let backend = FileBackend::open_writable(&path, &options).unwrap();
        let backend = Arc::new(FaultBackend::with_script(backend, |_| Fault::None));
        let storage = Arc::clone(&backend);
        let cache = cache(64);
        let file = cache.open_backend_with(storage, &path, &manual()).unwrap();
        work(&file);
        let other = file.clone();
        file.close().map_err(|(_, error)| error).unwrap();
        assert_eq!(
            backend.nr_sync_alls(),
            nr_syncs,
            "{options:?}, {size} bytes"
        );
        // The program's own sync also covers what earlier processes have written.
        other.sync_data().unwrap();
        assert_eq!(backend.nr_sync_datas(), 1);
        other.close().map_err(|(_, error)| error).unwrap();
    }
}
