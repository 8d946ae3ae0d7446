//! One file's trouble stays its own: its storage hangs or fails, its hook blocks, panics or
//! refuses, its pages are held; and whoever uses another file reads, writes, syncs and closes as if
//! nothing were the matter.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use pagewell::io::{
    Backend, Fault, FaultBackend, FileId, MemoryBackend, Operation, RacyBytes, RacySource,
};
use pagewell::{Cache, Error, ErrorKind, File, OpenOptions, Writeback};
use pagewell_crash::{EIO, Script, errno, stored};
use pagewell_testkit::content;
use pagewell_testkit::wait::{Gate, OpenAtEnd, block_on, bounded_by, until};

use crate::support::{PAGE, assert_all_free, builder, cache};

/// Frames of the caches here.
const FRAMES: u64 = 256;

/// What one file alone may have dirty: half of half.
const SHARE: usize = FRAMES as usize / 4;

const LIMIT: Duration = Duration::from_secs(60);

type Scripted = (File, Arc<FaultBackend<MemoryBackend>>, Script);

fn open(cache: &Cache, options: &OpenOptions) -> Scripted {
    let script = Script::default();
    let backend = script.on(MemoryBackend::writable(Vec::new()));
    let file = cache.open_backend_with(Arc::clone(&backend), "scripted", options);
    (file.expect("a writable backend"), backend, script)
}

fn background() -> OpenOptions {
    OpenOptions::new().write()
}

/// Appends pages until that fails; how many were appended, and the error.
fn fill(file: &File) -> (usize, Error) {
    for nr in 0.. {
        assert!(nr < 2 * FRAMES as usize, "a file without a limit");
        if let Err(error) = file.append(&content(nr as u64, PAGE)) {
            return (nr, error);
        }
    }
    unreachable!()
}

/// Checks what `fill` has appended.
fn check(bytes: &[u8], nr_pages: usize) {
    assert_eq!(bytes.len(), nr_pages * PAGE);
    for (nr, page) in (0..).zip(bytes.chunks(PAGE)) {
        assert!(page == content(nr, PAGE), "page {nr}");
    }
}

/// Uses a file as if it were alone: several times what the cache holds.
fn use_as_if_alone(cache: &Cache) {
    let (file, backend, _) = open(cache, &background());
    let nr_pages = 4 * FRAMES as usize;
    for nr in 0..nr_pages {
        file.append(&content(nr as u64, PAGE)).expect("append");
        if nr % 100 == 0 {
            file.sync_data().expect("sync");
        }
        let mut buf = [0; 16];
        let page = (nr / 2) as u64;
        file.read_at(&mut buf, page * PAGE as u64).expect("read");
        assert_eq!(buf, content(page, PAGE)[..16]);
    }
    file.close().map_err(|(_, error)| error).expect("close");
    check(&stored(backend).expect("readable"), nr_pages);
}

#[test]
fn a_storage_that_hangs_stops_its_own_file_alone() {
    bounded_by(LIMIT, "a storage that hangs", || {
        for hangs_in_sync in [false, true] {
            let cache = cache(FRAMES);
            let (file, backend, script) = open(&cache, &background());
            let gate = Arc::new(Gate::new());
            let held = Arc::clone(&gate);
            script.set(move |operation| {
                match operation {
                    Operation::SyncData if hangs_in_sync => held.pass(),
                    Operation::Write { .. } if !hangs_in_sync => held.pass(),
                    _ => {}
                }
                Fault::None
            });
            let open_at_end = OpenAtEnd(&gate);
            let (nr_pages, error) = fill(&file);
            assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
            let call = if hangs_in_sync { "a sync" } else { "a write" };
            let says = format!("its backend has not completed {call} for");
            assert!(error.to_string().contains(&says), "{error}");
            assert!((SHARE..SHARE + SHARE / 4).contains(&nr_pages), "{nr_pages}");
            // What is dirty already can be written to, and all can be read.
            let last = (nr_pages - 1) as u64;
            let bytes = content(last, PAGE);
            file.write_at(&bytes, last * PAGE as u64).unwrap();
            assert_eq!(*file.pin(last).unwrap(), bytes);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| use_as_if_alone(&cache));
                }
            });
            drop(open_at_end);
            file.sync_all().unwrap();
            check(&stored(backend).unwrap(), nr_pages);
            file.append(&[1; PAGE]).unwrap();
        }
    });
}

/// Their frames on the way in would fill the cache, and readers of other files would wait for them.
#[test]
fn readers_of_a_storage_that_hangs_stop_no_others() {
    bounded_by(LIMIT, "reads that hang", || {
        const NR_READERS: usize = 300;
        let cache = cache(FRAMES);
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        let backend = FaultBackend::new(
            MemoryBackend::new(vec![5; NR_READERS * PAGE]),
            move |_, _| {
                held.pass();
                Fault::None
            },
        );
        let file = cache.open_backend(backend, "hangs").unwrap();
        thread::scope(|scope| {
            let open_at_end = OpenAtEnd(&gate);
            for page in 0..NR_READERS {
                let file = &file;
                scope.spawn(move || {
                    let mut buf = [0; 8];
                    file.read_at(&mut buf, (page * PAGE) as u64).unwrap();
                    assert_eq!(buf, [5; 8]);
                });
            }
            // Each reads several pages ahead.
            until("they hang", || gate.nr_arrived() >= 4);
            // Longer than a fill waits for its budget, if it may exceed that.
            thread::sleep(Duration::from_millis(1100));
            use_as_if_alone(&cache);
            drop(open_at_end);
        });
        drop(file);
        assert_all_free(&cache);
    });
}

/// Regression test: together, files whose backends hang had all frames that may be in flight, and
/// readers of other files waited for ever.
#[test]
fn a_file_is_read_while_backends_that_hang_have_the_whole_budget() {
    bounded_by(LIMIT, "reads that hang", || {
        const NR_HUNG: usize = 8;
        const NR_PAGES: usize = 40;
        let cache = cache(FRAMES);
        let gate = Arc::new(Gate::new());
        let open = |nr| {
            let held = Arc::clone(&gate);
            let script = move |_, _| {
                held.pass();
                Fault::None
            };
            let bytes = MemoryBackend::new(vec![nr; NR_PAGES * PAGE]);
            let file = cache.open_backend(FaultBackend::new(bytes, script), "hangs");
            file.unwrap()
        };
        let hung: Vec<_> = (0..NR_HUNG as u8).map(open).collect();
        let file = cache
            .open_backend(MemoryBackend::new(vec![9; 10 * PAGE]), "file")
            .unwrap();
        thread::scope(|scope| {
            let open_at_end = OpenAtEnd(&gate);
            for (nr, file) in (0..).zip(&hung) {
                for page in (0..NR_PAGES).step_by(2) {
                    scope.spawn(move || {
                        let mut buf = [0; 8];
                        file.read_at(&mut buf, (page * PAGE) as u64).unwrap();
                        assert_eq!(buf, [nr; 8]);
                    });
                }
            }
            until("a read of each hangs", || gate.nr_arrived() >= NR_HUNG);
            for page in 0..3 {
                let mut buf = [0; 8];
                file.read_at(&mut buf, page * PAGE as u64).unwrap();
                assert_eq!(buf, [9; 8]);
            }
            drop(open_at_end);
        });
        drop(file);
        drop(hung);
        assert_all_free(&cache);
    });
}

/// Regression test: 64 offloaded syncs each of two files that hang were all calls of tasks that the
/// cache made at a time.
#[test]
fn tasks_use_a_file_while_all_calls_of_other_files_hang() {
    bounded_by(LIMIT, "syncs that hang", || {
        const NR_CALLS: usize = 70;
        let cache = cache(FRAMES);
        let gate = Arc::new(Gate::new());
        let open_at_end = OpenAtEnd(&gate);
        let hung = [(); 3].map(|()| {
            let (file, _, script) = open(&cache, &background());
            let held = Arc::clone(&gate);
            script.set(move |operation| {
                if let Operation::SyncData = operation {
                    held.pass();
                }
                Fault::None
            });
            file.append(&[1; PAGE]).unwrap();
            file
        });
        let context = &mut Context::from_waker(Waker::noop());
        let mut syncs: Vec<_> = (0..NR_CALLS)
            .flat_map(|_| hung.each_ref().map(|file| Box::pin(file.sync_data_async())))
            .collect();
        for sync in &mut syncs {
            assert!(sync.as_mut().poll(context).is_pending());
        }
        gate.wait_for(hung.len());

        let (file, backend, _) = open(&cache, &background());
        for nr in 0..10 {
            let (page, range) = block_on(file.append_async(content(nr, PAGE)));
            assert_eq!(range.unwrap(), nr * PAGE as u64..(nr + 1) * PAGE as u64);
            block_on(file.sync_data_async()).unwrap();
            let (_, wrote) = block_on(file.write_at_async(page, nr * PAGE as u64));
            assert_eq!(wrote.unwrap(), PAGE);
        }
        file.invalidate(0..u64::MAX);
        let (bytes, read) = block_on(file.read_at_async(vec![0; 10 * PAGE], 0));
        assert_eq!(read.unwrap(), 10 * PAGE);
        check(&bytes, 10);
        file.close().map_err(|(_, error)| error).unwrap();
        check(&stored(backend).unwrap(), 10);

        for sync in &mut syncs {
            assert!(sync.as_mut().poll(context).is_pending());
        }
        drop(open_at_end);
        for sync in syncs {
            block_on(sync).unwrap();
        }
    });
}

/// Each keeps a thread of the cache; the others are written back by more of them.
#[test]
fn many_storages_that_hang_leave_threads_for_one_that_does_not() {
    bounded_by(LIMIT, "many storages that hang", || {
        let cache = cache(FRAMES);
        let gate = Arc::new(Gate::new());
        let open_at_end = OpenAtEnd(&gate);
        let hanging: Vec<_> = (0..12)
            .map(|_| {
                let (file, backend, script) = open(&cache, &background());
                let held = Arc::clone(&gate);
                script.set(move |operation| {
                    if let Operation::Write { .. } = operation {
                        held.pass();
                    }
                    Fault::None
                });
                file.append(&[1; PAGE]).unwrap();
                (file, backend)
            })
            .collect();
        until("all of them hang", || gate.nr_arrived() == hanging.len());
        let (file, backend, _) = open(&cache, &background());
        file.append(&[2; PAGE]).unwrap();
        until("it is written back", || backend.nr_writes() == 1);
        use_as_if_alone(&cache);
        drop(open_at_end);
        for (file, backend) in hanging {
            file.close().map_err(|(_, error)| error).unwrap();
            assert_eq!(stored(backend).unwrap(), [1; PAGE]);
        }
    });
}

#[test]
fn a_hook_that_blocks_stops_its_own_file_alone() {
    bounded_by(LIMIT, "a hook that blocks", || {
        let cache = cache(FRAMES);
        let gate = Arc::new(Gate::new());
        let open_at_end = OpenAtEnd(&gate);
        let options = {
            let gate = Arc::clone(&gate);
            background().before_write(move |_, _| {
                gate.pass();
                Ok(())
            })
        };
        let (file, backend, _) = open(&cache, &options);
        let (nr_pages, error) = fill(&file);
        assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
        let says = "its writeback callback has not returned for";
        assert!(error.to_string().contains(says), "{error}");
        use_as_if_alone(&cache);
        drop(open_at_end);
        file.sync_all().unwrap();
        check(&stored(backend).unwrap(), nr_pages);
    });
}

#[test]
fn a_file_at_its_share_that_cannot_be_cleaned_says_why() {
    bounded_by(LIMIT, "files at their share", || {
        let cache = cache(FRAMES);
        let manual = OpenOptions::new().writeback(Writeback::Manual);
        let (by_hand, _, _) = open(&cache, &manual);
        let refusing = background().before_write(|_, _| Err(io::Error::other("not now")));
        let (refused, _, _) = open(&cache, &refusing);
        let (broken, _, script) = open(&cache, &background());
        script.set(|operation| match operation {
            Operation::Write { .. } => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        // Not by `panic!`: where backtraces are printed, that takes as long as a hook that does not
        // return.
        let panicking =
            background().before_write(|_, _| std::panic::resume_unwind(Box::new("made to panic")));
        let (panics, _, _) = open(&cache, &panicking);
        for (file, why) in [
            (&by_hand, "only the program makes its pages durable"),
            (&refused, "not now"),
            (&broken, "os error 5"),
            (&panics, "panicked"),
        ] {
            let (_, error) = fill(file);
            assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                text += &format!(": {error}");
                source = error.source();
            }
            assert!(text.contains(why), "{text}");
        }
        use_as_if_alone(&cache);
        // What the program does about it helps.
        by_hand.sync_data().unwrap();
        by_hand.append(&[1]).unwrap();
        script.heal();
        until("it works again", || broken.append(&[1]).is_ok());
    });
}

/// A program's mutex around its log, which the hook of the data takes to make the log durable: with
/// a log that reached the limit of dirty frames, its append waited for the data's write-back, which
/// waited in the hook.
#[test]
fn a_mutex_around_a_log_may_be_taken_by_the_hook_too() {
    bounded_by(LIMIT, "a log and its data", || {
        let cache = cache(FRAMES);
        let (log, log_backend, _) = open(&cache, &background());
        let log = Arc::new(Mutex::new(log));
        let options = {
            let log = Arc::clone(&log);
            background().before_write(move |_, _| {
                let log = log.lock().expect("not poisoned");
                log.sync_data().map_err(io::Error::from)
            })
        };
        let (data, data_backend, _) = open(&cache, &options);
        data.set_size(100 * PAGE as u64).unwrap();
        let nr_records = 20_000_u64;
        thread::scope(|scope| {
            for thread in 0..2 {
                let (log, data) = (&log, &data);
                scope.spawn(move || {
                    for nr in 0..nr_records {
                        let log = log.lock().expect("not poisoned");
                        log.append(&content(nr, 200)).expect("append");
                        drop(log);
                        let page = (nr * 7 + thread) % 100;
                        data.write_at_lsn(&[nr as u8; 8], page * PAGE as u64, nr + 1)
                            .expect("write");
                    }
                });
            }
        });
        data.sync_all().unwrap();
        assert_eq!(stored(data_backend).unwrap().len(), 100 * PAGE);
        log.lock().unwrap().sync_all().unwrap();
        assert_eq!(
            stored(log_backend).unwrap().len() as u64,
            2 * nr_records * 200
        );
    });
}

/// Even a program that holds what its hook needs while it writes to that very file comes to an end.
#[test]
fn a_writer_that_has_the_mutex_of_its_own_hook_gets_an_error_and_no_hang() {
    bounded_by(LIMIT, "a mutex of the hook", || {
        let cache = cache(FRAMES);
        let mutex = Arc::new(Mutex::new(()));
        let options = {
            let mutex = Arc::clone(&mutex);
            background().before_write(move |_, _| {
                drop(mutex.lock().expect("not poisoned"));
                Ok(())
            })
        };
        let (file, backend, _) = open(&cache, &options);
        let guard = mutex.lock().unwrap();
        let (nr_pages, error) = fill(&file);
        assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
        assert!(
            error.to_string().contains("its writeback callback"),
            "{error}"
        );
        drop(guard);
        file.sync_data().unwrap();
        check(&stored(backend).unwrap(), nr_pages);
    });
}

/// The names of the threads that call a hook.
#[derive(Clone, Default)]
struct Callers(Arc<Mutex<Vec<String>>>);

impl Callers {
    fn hook(&self) -> OpenOptions {
        let callers = self.0.clone();
        background().before_write(move |_, _| {
            let name = thread::current().name().unwrap_or("no name").to_owned();
            callers.lock().expect("not poisoned").push(name);
            Ok(())
        })
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

#[test]
fn hooks_run_on_threads_of_the_cache_or_on_one_that_asked_for_the_file() {
    bounded_by(LIMIT, "callers of hooks", || {
        let cache = cache(FRAMES);
        let callers = Callers::default();
        let (small, _, _) = open(&cache, &callers.hook());
        small.set_size(120 * PAGE as u64).unwrap();
        let large = MemoryBackend::new(vec![2; 256 * PAGE]);
        let large = cache
            .open_backend_with(large, "large", &OpenOptions::new().page_size(16 * PAGE))
            .unwrap();
        // Small dirty pages are where the large ones want to be, so that readers have to wait for
        // write-back.
        for round in 0..20_u8 {
            for page in (0..120).step_by(4) {
                small.write_at(&[round; 10], page * PAGE as u64).unwrap();
            }
            for page in 0..16 {
                large
                    .read_at(&mut [0; 10], page * 16 * PAGE as u64)
                    .unwrap();
            }
        }
        // And so do writers of the file itself at its share.
        for nr in 0..2 * FRAMES {
            small.append(&content(nr, PAGE)).unwrap();
        }
        let names = callers.take();
        assert!(!names.is_empty());
        assert!(
            names.iter().all(|name| name == "pagewell-flusher"),
            "{names:?}"
        );
        // A caller that asks for the file calls the hook itself.
        let quiet = cache.quiesce().unwrap();
        small.write_at(&[1], 0).unwrap();
        callers.take();
        let asking = thread::Builder::new().name("asking".into());
        thread::scope(|scope| {
            let asking = asking.spawn_scoped(scope, || small.sync_data().unwrap());
            asking.unwrap().join().unwrap();
        });
        assert!(callers.take().iter().all(|name| name == "asking"));
        drop(quiet);
    });
}

#[test]
fn a_hook_that_panics_fails_its_own_file_alone() {
    bounded_by(LIMIT, "a hook that panics", || {
        let cache = cache(FRAMES);
        let panics = Arc::new(AtomicBool::new(true));
        let hook = {
            let panics = Arc::clone(&panics);
            move |_, _| {
                assert!(!panics.load(Ordering::Relaxed), "made to panic");
                Ok(())
            }
        };
        let (bad, bad_backend, _) = open(&cache, &background().before_write(hook));
        bad.append(&[1; PAGE]).unwrap();
        let others: Vec<_> = (0..8)
            .map(|_| {
                let (file, backend, _) = open(&cache, &background());
                file.append(&[2; PAGE]).unwrap();
                (file, backend)
            })
            .collect();
        until("the others are written back", || {
            others.iter().all(|(_, backend)| backend.nr_writes() == 1)
        });
        use_as_if_alone(&cache);
        // Who uses the file is told.
        panics.store(false, Ordering::Relaxed);
        let error = bad.sync_data().unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("panicked"), "{source}");
        bad.sync_data().unwrap();
        assert_eq!(stored(bad_backend).unwrap(), [1; PAGE]);
    });
}

/// A fifth of the cache was written and never synced; no number of reads could evict it.
#[test]
fn what_is_dirty_for_long_becomes_durable_by_itself() {
    bounded_by(LIMIT, "an age limit", || {
        let cache = Cache::builder()
            .capacity(FRAMES * (PAGE as u64 + 64))
            .max_dirty_age(Duration::from_millis(300))
            .build()
            .unwrap();
        let (file, backend, _) = open(&cache, &background());
        let (by_hand, untouched, _) =
            open(&cache, &OpenOptions::new().writeback(Writeback::Manual));
        by_hand.append(&[3; PAGE]).unwrap();
        let nr_pages = FRAMES / 5;
        for nr in 0..nr_pages {
            file.append(&content(nr, PAGE)).unwrap();
        }
        until("all is durable but what the program writes back", || {
            cache.stats().nr_unclean == 1
        });
        assert!(backend.nr_sync_datas() != 0);
        assert_eq!((untouched.nr_writes(), untouched.nr_sync_datas()), (0, 0));
        assert_eq!(cache.reclaim(usize::MAX) as u64, nr_pages);
        check(&stored(backend).unwrap(), nr_pages as usize);
    });
}

#[test]
fn what_is_not_old_is_written_and_not_made_durable() {
    bounded_by(LIMIT, "no age limit", || {
        let cache = cache(FRAMES);
        let (file, backend, _) = open(&cache, &background());
        file.append(&[1; PAGE]).unwrap();
        until("it is written", || backend.nr_writes() == 1);
        assert_eq!(backend.nr_sync_datas(), 0);
        assert_eq!(cache.stats().nr_unclean, 1);
    });
}

/// One error at the last close lost what a second try would have saved.
#[test]
fn the_last_close_tries_again() {
    bounded_by(LIMIT, "a last close", || {
        for is_closed in [false, true] {
            let cache = Cache::builder().close_timeout(LIMIT).build().unwrap();
            let options = OpenOptions::new().writeback(Writeback::Manual);
            let (file, backend, script) = open(&cache, &options);
            file.append(&[1; PAGE]).unwrap();
            let nr_failures = AtomicUsize::new(3);
            script.set(move |operation| {
                let is_write = matches!(operation, Operation::Write { .. });
                let count = |nr: usize| nr.checked_sub(1);
                let (order, relaxed) = (Ordering::Relaxed, Ordering::Relaxed);
                if is_write && nr_failures.fetch_update(order, relaxed, count).is_ok() {
                    return Fault::Fail(io::ErrorKind::Interrupted.into());
                }
                Fault::None
            });
            match is_closed {
                true => file.close().map_err(|(_, error)| error).unwrap(),
                false => drop(file),
            }
            assert_eq!(backend.nr_writes(), 4);
            assert_eq!(stored(backend).unwrap(), [1; PAGE]);
            assert_all_free(&cache);
        }
    });
}

/// A thread that wanted the cache to be quiet waited for a storage that hung, and until then nobody
/// else was written back.
#[test]
fn who_waits_for_a_quiet_cache_keeps_no_writer_waiting() {
    bounded_by(LIMIT, "a cache that is to be quiet", || {
        let cache = cache(FRAMES);
        let (file, _, script) = open(&cache, &background());
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        script.set(move |operation| {
            if let Operation::Write { .. } = operation {
                held.pass();
            }
            Fault::None
        });
        file.append(&[1; PAGE]).unwrap();
        until("its storage hangs", || gate.nr_arrived() == 1);
        thread::scope(|scope| {
            let open_at_end = OpenAtEnd(&gate);
            let quiet = scope.spawn(|| drop(cache.quiesce().unwrap()));
            let (_, error) = fill(&file);
            assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
            assert!(
                error.to_string().contains("has not completed a write"),
                "{error}"
            );
            use_as_if_alone(&cache);
            assert!(!quiet.is_finished());
            drop(open_at_end);
        });
    });
}

/// One page that the hook refused kept all others of the file from becoming durable, and so its
/// writers from going on.
#[test]
fn what_a_hook_refuses_keeps_nothing_else_from_becoming_durable() {
    bounded_by(LIMIT, "a refusal", || {
        let cache = cache(FRAMES);
        let options = background().before_write(|page, _| match page {
            3 => Err(io::Error::other("not page 3")),
            _ => Ok(()),
        });
        let (file, backend, _) = open(&cache, &options);
        let nr_pages = 4 * FRAMES;
        for nr in 0..nr_pages {
            file.append(&content(nr, PAGE)).unwrap();
        }
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert_eq!(cache.stats().nr_unclean, 1);
        let mut bytes = stored(backend).unwrap();
        assert_eq!(bytes[3 * PAGE..4 * PAGE], [0; PAGE]);
        bytes[3 * PAGE..4 * PAGE].copy_from_slice(&content(3, PAGE));
        check(&bytes, nr_pages as usize);
    });
}

/// The last writer went while its storage failed, and the reader that closed the file was told that
/// all was well.
#[test]
fn a_reader_that_closes_a_file_is_told_what_is_lost() {
    bounded_by(LIMIT, "a reader's close", || {
        let cache = cache(FRAMES);
        let options = OpenOptions::new().writeback(Writeback::Manual);
        let (writer, backend, script) = open(&cache, &options);
        let reader = cache.open_backend(Arc::clone(&backend), "again").unwrap();
        writer.append(&[1; 3 * PAGE]).unwrap();
        script.set(|operation| match operation {
            Operation::SyncAll | Operation::SyncData => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        // Not the last handle: whoever has the last one closes the file.
        drop(writer);
        let (reader, error) = reader.close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("12 KiB"), "{error}");
        // The handle is there still, and so is what was written.
        let mut bytes = vec![0; 3 * PAGE];
        reader.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1; 3 * PAGE]);
        script.heal();
        reader.close().map_err(|(_, error)| error).unwrap();
        assert_eq!(stored(backend).unwrap(), [1; 3 * PAGE]);
        assert_all_free(&cache);
    });
}

/// A storage that makes so many bytes durable in a second: a sync takes as long as what was written
/// since the last one needs.
fn slow_storage(bytes_per_second: u64) -> Arc<FaultBackend<MemoryBackend>> {
    let nr_unsynced = AtomicU64::new(0);
    let backend = MemoryBackend::writable(Vec::new());
    Arc::new(FaultBackend::with_script(backend, move |operation| {
        match operation {
            Operation::Write { len, .. } => {
                nr_unsynced.fetch_add(*len as u64, Ordering::Relaxed);
            }
            Operation::SyncData | Operation::SyncAll => {
                let nr = nr_unsynced.swap(0, Ordering::Relaxed);
                thread::sleep(Duration::from_secs_f64(nr as f64 / bytes_per_second as f64));
            }
            _ => {}
        }
        Fault::None
    }))
}

/// A cache of slow backends: twice the default limit of one call, since a busy machine delays the
/// thread of a call that sleeps, too.
fn slow_cache(nr_frames: u64) -> Cache {
    let timeout = Duration::from_millis(1800);
    builder(nr_frames).stall_timeout(timeout).build().unwrap()
}

/// One sync of a file's share took longer than a storage may hang, and all the while writers got
/// errors.
#[test]
fn a_storage_that_needs_long_for_much_makes_writers_slow_and_does_not_fail_them() {
    bounded_by(LIMIT, "a slow storage", || {
        let nr_frames = 16 * FRAMES;
        let cache = slow_cache(nr_frames);
        // The share takes 3 s, longer than a call may take.
        let share = nr_frames / 4 * PAGE as u64;
        let backend = slow_storage(share / 3);
        let file = cache.open_backend_with(Arc::clone(&backend), "slow", &background());
        let file = file.unwrap();
        let nr_pages = nr_frames / 2;
        for nr in 0..nr_pages {
            file.append(&content(nr, PAGE))
                .expect("a storage that works");
        }
        file.close().map_err(|(_, error)| error).unwrap();
        check(&stored(backend).unwrap(), nr_pages as usize);
    });
}

/// The same, where the pages are given to the storage in the background, few at a time, and only
/// then writers come to the share.
#[test]
fn what_was_written_in_the_background_does_not_make_a_later_sync_long() {
    bounded_by(LIMIT, "a slow storage", || {
        let nr_frames = 16 * FRAMES;
        let cache = slow_cache(nr_frames);
        let share = nr_frames / 4 * PAGE as u64;
        let backend = slow_storage(share / 6);
        let file = cache.open_backend_with(Arc::clone(&backend), "slow", &background());
        let file = file.unwrap();
        let mut nr_pages = 0;
        // From a third of the share on a flusher makes the file durable.
        for _ in 0..4 {
            for _ in 0..nr_frames / 4 / 15 {
                file.append(&content(nr_pages, PAGE)).unwrap();
                nr_pages += 1;
            }
            let nr_writes = backend.nr_writes();
            until("it is written back", || backend.nr_writes() > nr_writes);
        }
        for _ in 0..nr_frames / 4 {
            file.append(&content(nr_pages, PAGE))
                .expect("a storage that works");
            nr_pages += 1;
        }
        file.close().map_err(|(_, error)| error).unwrap();
        check(&stored(backend).unwrap(), nr_pages as usize);
    });
}

/// A storage that notes which pages it was given and not told to begin with, when it is synced.
#[derive(Debug)]
struct Begins {
    inner: MemoryBackend,
    pages: Mutex<HashSet<u64>>,
    most_at_sync: AtomicUsize,
    nr_syncs: AtomicUsize,
}

impl Begins {
    fn note_sync(&self) {
        self.nr_syncs.fetch_add(1, Ordering::Relaxed);
        let nr = std::mem::take(&mut *self.pages.lock().unwrap()).len();
        self.most_at_sync.fetch_max(nr, Ordering::Relaxed);
    }
}

fn pages_of(bytes: std::ops::Range<u64>) -> std::ops::Range<u64> {
    bytes.start / PAGE as u64..bytes.end / PAGE as u64
}

impl Backend for Begins {
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
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut pages = self.pages.lock().unwrap();
        pages.extend(pages_of(pos..pos + len as u64));
        self.inner.write_at(bufs, pos)
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }
    fn begin_sync(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        assert!(range.end - range.start <= 1 << 20, "{range:?}");
        let mut pages = self.pages.lock().unwrap();
        for page in pages_of(range) {
            pages.remove(&page);
        }
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        self.note_sync();
        self.inner.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.note_sync();
        self.inner.sync_all()
    }
}

/// What a program had flushed was left to one long call. A storage that can begin is to begin with
/// all of it first, in pieces.
#[test]
fn what_the_program_has_flushed_is_made_durable_in_pieces() {
    bounded_by(LIMIT, "flushes and syncs", || {
        // So large, and so patient, that no page is too many or too old.
        let builder = builder(256 * FRAMES).max_dirty_age(2 * LIMIT);
        let cache = builder.build().unwrap();
        // A thread of the cache, which looks five times a second, may sync what was flushed before
        // the program does: it has then learnt the speed of that backend, and another one is tried.
        let mut nr_unknown = 0;
        for round in 0..=u8::MAX {
            if nr_unknown == 5 {
                break;
            }
            let backend = Arc::new(Begins {
                inner: MemoryBackend::writable(Vec::new()),
                pages: Mutex::default(),
                most_at_sync: AtomicUsize::new(0),
                nr_syncs: AtomicUsize::new(0),
            });
            let file = cache.open_backend_with(Arc::clone(&backend), "begins", &background());
            let file = file.unwrap();
            // In the second half each page is a piece.
            file.write_at(&[round; 300 * PAGE], 0).unwrap();
            for nr in 150..300 {
                file.write_at(&content(nr, PAGE), 2 * nr * PAGE as u64)
                    .unwrap();
            }
            file.flush(0..u64::MAX).unwrap();
            file.sync_data().unwrap();
            assert_eq!(cache.stats().nr_unclean, 0);
            if backend.nr_syncs.load(Ordering::Relaxed) == 1 {
                let most = backend.most_at_sync.load(Ordering::Relaxed);
                assert!(most < 64, "{most} pages");
                nr_unknown += 1;
            }
        }
        assert_eq!(nr_unknown, 5, "backends that the program alone synced");
    });
}
