//! Calls that do not wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{Direct, Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::{Advice, Cache, ErrorKind, File, OpenOptions};
use pagewell_testkit::wait::{Gate, block_on, bounded, until};
use pagewell_testkit::{Rng, content, scratch};

const PAGE: u64 = 4096;

fn cache(choice: Choice, bytes: u64) -> Cache {
    let builder = Cache::builder().capacity(bytes);
    builder.engine(Settings::new(choice)).build().unwrap()
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A storage whose reads stop at the gate.
fn gated(bytes: &[u8]) -> (Arc<Gate>, Arc<FaultBackend<MemoryBackend>>) {
    let gate = Arc::new(Gate::new());
    let script = {
        let gate = Arc::clone(&gate);
        move |_, _| {
            gate.pass();
            Fault::None
        }
    };
    let storage = FaultBackend::new(MemoryBackend::new(bytes.to_vec()), script);
    (gate, Arc::new(storage))
}

#[test]
fn a_hit_is_ready_at_the_first_poll() {
    let bytes = content(1, 20_000);
    let cache = cache(Choice::Auto, 4 << 20);
    let file = cache
        .open_backend(MemoryBackend::writable(bytes.clone()), "file")
        .unwrap();
    let mut whole = vec![0; 20_000];
    file.read_at(&mut whole, 0).unwrap();
    for (offset, len) in [
        (0, 8),
        (4090, 64),
        (100, 9000),
        (19_990, 50),
        (20_000, 5),
        (7, 0),
    ] {
        let Poll::Ready((buf, result)) = poll_once(&mut file.read_at_async(vec![1; len], offset))
        else {
            panic!("{len} bytes at {offset} are there");
        };
        let end = (offset as usize + len).min(bytes.len());
        let expected = &bytes[offset as usize..end];
        assert_eq!(result.unwrap(), expected.len());
        assert!(buf[..expected.len()] == *expected);
        assert_eq!(buf.len(), len);
    }
    let Poll::Ready(pinned) = poll_once(&mut file.pin_async(4)) else {
        panic!("the page is there");
    };
    assert!(*pinned.unwrap() == bytes[4 * 4096..]);
    let error = block_on(file.pin_async(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let error = block_on(file.pin_async(u64::MAX)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    let (_, result) = block_on(file.read_at_async(vec![0; 9], u64::MAX - 3));
    assert_eq!(result.unwrap(), 0);
}

#[test]
fn what_is_missing_is_read_by_every_engine() {
    for choice in [Choice::Auto, Choice::Worker, Choice::Sync] {
        for direct in [Direct::Auto, Direct::Never] {
            let dir = scratch::dir();
            let path = dir.path().join("file");
            let bytes = content(2, 3_000_001);
            std::fs::write(&path, &bytes).unwrap();
            // A quarter of the file.
            let cache = cache(choice, 800_000);
            let options = OpenOptions::new().direct(direct);
            let file = cache.open_with(&path, &options).unwrap();
            let mut rng = Rng::new(3);
            for _ in 0..100 {
                let offset = rng.below(bytes.len() as u64 + 100);
                let len = rng.index(30_000);
                let (buf, result) = block_on(file.read_at_async(vec![0; len], offset));
                let start = bytes.len().min(offset as usize);
                let expected = &bytes[start..bytes.len().min(start + len)];
                assert_eq!(result.unwrap(), expected.len());
                assert!(buf[..expected.len()] == *expected);
            }
            let places: Vec<u64> = (0..64)
                .map(|_| rng.below(bytes.len() as u64 - 99))
                .collect();
            let reads = places.iter().map(|place| (*place, vec![0; 99])).collect();
            let answers = block_on(file.read_many_async(reads));
            for (place, (buf, result)) in std::iter::zip(&places, answers) {
                assert_eq!(result.unwrap(), 99);
                assert!(buf == bytes[*place as usize..][..99]);
            }
            let page = rng.below(700);
            let pinned = block_on(file.pin_async(page)).unwrap();
            assert!(*pinned == bytes[(page * PAGE) as usize..][..4096]);
            drop(pinned);
            drop(file);
            assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
            cache.verify().unwrap();
        }
    }
}

/// No poll waits for the storage, however many are under way; and tasks that want one page have it read once.
#[test]
fn an_executor_of_one_thread_is_never_blocked() {
    bounded("an executor", || {
        let bytes = content(4, 1 << 20);
        let (gate, storage) = gated(&bytes);
        let cache = cache(Choice::Worker, 4 << 20);
        let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
        // Ten pages, each for 20 tasks.
        let mut reads: Vec<_> = (0..200)
            .map(|nr| file.read_at_async(vec![0; 100], nr % 10 * 10 * PAGE + nr))
            .collect();
        for read in &mut reads {
            assert!(poll_once(read).is_pending());
        }
        gate.wait_for(10);
        for read in &mut reads {
            assert!(poll_once(read).is_pending());
        }
        gate.open();
        for (nr, read) in reads.into_iter().enumerate() {
            let (buf, result) = block_on(read);
            assert_eq!(result.unwrap(), 100);
            assert!(buf == bytes[nr % 10 * 40_960 + nr..][..100]);
        }
        assert_eq!(storage.nr_reads(), 10);
    });
}

/// Futures are dropped after each number of polls, before they are polled at all, and while the storage has their memory.
#[test]
fn futures_are_dropped_at_any_time() {
    bounded("drops", || {
        let bytes = content(5, 1 << 20);
        for choice in [Choice::Auto, Choice::Worker, Choice::Sync] {
            let cache = cache(choice, 500_000);
            let storage = MemoryBackend::writable(bytes.clone());
            let file = cache
                .open_backend_with(storage, "file", &OpenOptions::new().write())
                .unwrap();
            let mut rng = Rng::new(6);
            for nr_polls in (0..60).map(|nr| nr % 6) {
                let place = rng.below(bytes.len() as u64 - 50_000);
                let old = bytes[place as usize..][..9000].to_vec();
                let mut futures: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![
                    Box::pin(async { drop(file.read_at_async(vec![0; 9000], place).await) }),
                    Box::pin(async { drop(file.write_at_async(old, place).await) }),
                    Box::pin(async { drop(file.pin_async(place / PAGE).await) }),
                    Box::pin(async { drop(file.sync_data_async().await) }),
                    Box::pin(async {
                        let reads = (0..9).map(|nr| (place + nr * 5000, vec![0; 10]));
                        drop(file.read_many_async(reads.collect()).await);
                    }),
                ];
                for _ in 0..nr_polls {
                    futures.retain_mut(|future| {
                        let mut context = Context::from_waker(Waker::noop());
                        future.as_mut().poll(&mut context).is_pending()
                    });
                    thread::yield_now();
                }
                drop(futures);
                let mut buf = vec![0; 9000];
                file.read_at(&mut buf, place).unwrap();
                assert!(buf == bytes[place as usize..][..9000]);
            }
            file.close().unwrap();
            drop(cache.quiesce().unwrap());
            assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
            cache.verify().unwrap();
        }
        let (gate, storage) = gated(&bytes);
        let cache = cache(Choice::Worker, 500_000);
        let file = cache.open_backend(storage, "gate").unwrap();
        let mut read = file.read_at_async(vec![0; 10], 77);
        assert!(poll_once(&mut read).is_pending());
        gate.wait_for(1);
        drop(read);
        gate.open();
        // It was read all the same, once.
        assert_eq!(
            block_on(file.read_at_async(vec![0; 10], 77)).0,
            bytes[77..87]
        );
        assert_eq!(cache.stats().nr_fills, 1);
    });
}

#[test]
fn a_storage_that_hangs_keeps_no_other_file_and_tasks_give_up_in_time() {
    bounded("timeouts", || {
        let bytes = content(7, 1 << 20);
        let (gate, storage) = gated(&bytes);
        let cache = cache(Choice::Worker, 4 << 20);
        let hangs = cache.open_backend(storage, "hangs").unwrap();
        let works = cache
            .open_backend(MemoryBackend::new(bytes.clone()), "works")
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            for nr in 0..100 {
                let read = hangs.read_at_async(vec![0; 10], nr * PAGE);
                let moment = Duration::from_millis(1);
                assert!(tokio::time::timeout(moment, read).await.is_err());
                let (buf, result) = works.read_at_async(vec![0; 10], nr * PAGE).await;
                assert_eq!(result.unwrap(), 10);
                assert!(buf == bytes[(nr * PAGE) as usize..][..10]);
            }
        });
        gate.open();
        drop(hangs);
    });
}

#[test]
fn thousands_of_tasks_read_and_write_at_once() {
    for threads in [1, 3] {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        const LEN: u64 = 4 << 20;
        let bytes: Vec<u8> = (0..LEN / 8).flat_map(|nr| (nr * 8).to_le_bytes()).collect();
        std::fs::write(&path, &bytes).unwrap();
        let cache = cache(Choice::Auto, 1 << 20);
        let options = OpenOptions::new().write().direct(Direct::Auto);
        let file = Arc::new(cache.open_with(&path, &options).unwrap());
        let runtime = match threads {
            1 => tokio::runtime::Builder::new_current_thread().build(),
            nr => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(nr)
                .build(),
        };
        let bytes = Arc::new(bytes);
        runtime.unwrap().block_on(async {
            let tasks: Vec<_> = (0..4000_u64)
                .map(|seed| {
                    let (file, bytes) = (Arc::clone(&file), Arc::clone(&bytes));
                    tokio::spawn(async move {
                        let mut rng = Rng::new(seed);
                        let place = rng.below(LEN - 9000);
                        let len = rng.index(9000);
                        let expected = &bytes[place as usize..][..len];
                        match seed % 8 {
                            0 => {
                                let write = file.write_at_async(expected.to_vec(), place);
                                let (buf, result) = write.await;
                                assert_eq!(result.unwrap(), len);
                                assert!(buf == expected);
                            }
                            1 if seed % 64 == 1 => file.sync_data_async().await.unwrap(),
                            2 => {
                                let pinned = file.pin_async(place / PAGE).await.unwrap();
                                let start = (place / PAGE * PAGE) as usize;
                                assert!(*pinned == bytes[start..start + 4096]);
                            }
                            _ => {
                                let (buf, result) = file.read_at_async(vec![0; len], place).await;
                                assert_eq!(result.unwrap(), len);
                                assert!(buf == expected);
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let file = Arc::into_inner(file).unwrap();
        file.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == *bytes);
        cache.verify().unwrap();
    }
}

/// What became of a page's fill was kept after another reader had filled the page, and was taken for that of the next page:
/// a short count in the middle of the file.
#[test]
fn a_failed_fill_of_one_page_is_no_error_of_the_next() {
    let (nr, gate) = (AtomicUsize::new(0), Arc::new(Gate::new()));
    let script = {
        let gate = Arc::clone(&gate);
        move |_, _| match nr.fetch_add(1, Ordering::Relaxed) {
            1 => {
                gate.pass();
                Fault::Fail(std::io::Error::other("not yet"))
            }
            _ => Fault::None,
        }
    };
    let bytes = content(9, 3 * PAGE as usize);
    let storage = FaultBackend::new(MemoryBackend::new(bytes.clone()), script);
    let cache = cache(Choice::Worker, 4 << 20);
    let file = cache.open_backend(storage, "file").unwrap();
    file.read_at(&mut [0; 10], PAGE).unwrap();
    // Page 0 alone is missing, and its fill fails.
    let mut read = file.read_at_async(vec![0; 2 * PAGE as usize], 0);
    assert!(poll_once(&mut read).is_pending());
    gate.open();
    until("the fill fails", || cache.stats().nr_failed_fills == 1);
    // Another reader fills it, and uses it again, so that it is copied without a lookup; and page 1 is evicted. The failure is
    // counted before the claim of the page ends. A reader that finds the claim gets the error of the fill.
    let is_read = || file.read_at(&mut [0; 10], 0).is_ok();
    until("another reader fills the page", is_read);
    assert!(is_read() && is_read());
    file.invalidate(PAGE..2 * PAGE);
    let (buf, result) = block_on(read);
    assert_eq!(result.unwrap(), 2 * PAGE as usize);
    assert!(buf == bytes[..2 * PAGE as usize]);
}

#[test]
fn an_error_is_told_to_who_asked_and_is_not_kept() {
    for choice in [Choice::Auto, Choice::Worker, Choice::Sync] {
        let nr = Arc::new(AtomicUsize::new(0));
        let script = {
            let nr = Arc::clone(&nr);
            move |_, _| match nr.fetch_add(1, Ordering::Relaxed) {
                0 => Fault::Fail(std::io::Error::other("not yet")),
                _ => Fault::None,
            }
        };
        let bytes = content(8, 100_000);
        let storage = FaultBackend::new(MemoryBackend::new(bytes.clone()), script);
        let file = cache(choice, 4 << 20)
            .open_backend(storage, "file")
            .unwrap();
        let (buf, result) = block_on(file.read_at_async(vec![1; 10], 50_000));
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "not yet");
        assert_eq!(buf, [0; 10]);
        let (buf, result) = block_on(file.read_at_async(buf, 50_000));
        assert_eq!(result.unwrap(), 10);
        assert!(buf == bytes[50_000..50_010]);
        let (_, result) = block_on(file.write_at_async(vec![1], 0));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnly);
        let error = block_on(file.sync_data_async()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
    }
}

fn writable(cache: &Cache, bytes: &[u8]) -> (Arc<FaultBackend<MemoryBackend>>, File) {
    let storage = MemoryBackend::writable(bytes.to_vec());
    let storage = Arc::new(FaultBackend::new(storage, |_, _| Fault::None));
    let options = OpenOptions::new().write();
    let file = cache
        .open_backend_with(Arc::clone(&storage), "file", &options)
        .unwrap();
    (storage, file)
}

#[test]
fn writes_appends_and_syncs_are_done_as_by_calls_that_wait() {
    for choice in [Choice::Auto, Choice::Sync] {
        let cache = cache(choice, 4 << 20);
        let mut bytes = content(9, 100_000);
        let (storage, file) = writable(&cache, &bytes);
        let mut write = |offset: usize, len: usize, value: u8| {
            let (buf, result) = block_on(file.write_at_async(vec![value; len], offset as u64));
            assert_eq!((result.unwrap(), buf), (len, vec![value; len]));
            let end = offset + len;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].fill(value);
        };
        write(10, 20, 1); // a part of a missing page
        write(12, 2, 2); // a hit
        write(8192, 4096, 3); // a whole missing page
        write(20_000, 30_000, 4);
        write(99_990, 20, 5); // grows
        write(120_000, 5, 6); // with a gap
        write(5, 0, 0);
        let (buf, result) = block_on(file.append_async(b"end".to_vec()));
        assert_eq!((buf, result.unwrap()), (b"end".to_vec(), 120_005..120_008));
        bytes.extend(b"end");
        let nr = storage.nr_sync_datas();
        block_on(file.sync_data_async()).unwrap();
        assert!(storage.nr_sync_datas() > nr);
        let mut now = vec![0; 200_000];
        assert_eq!(file.read_at(&mut now, 0).unwrap(), bytes.len());
        assert!(now[..bytes.len()] == bytes);
        let (_, result) = block_on(file.write_at_async(vec![1; 10], u64::MAX - 4));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::FileTooLarge);
        file.close().unwrap();
    }
}

#[test]
fn a_write_waits_for_another_tasks_guard_and_not_for_its_own() {
    let cache = cache(Choice::Auto, 4 << 20);
    let (_, file) = writable(&cache, &content(10, 100_000));
    let guard = file.pin_mut(3).unwrap();
    let (_, result) = block_on(file.write_at_async(vec![7; 10], 3 * PAGE));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Deadlock);
    let guard = guard.detach();
    let mut write = file.write_at_async(vec![7; 10], 3 * PAGE);
    for _ in 0..10 {
        assert!(poll_once(&mut write).is_pending());
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            drop(guard);
        });
        let (_, result) = block_on(write);
        assert_eq!(result.unwrap(), 10);
    });
    let mut buf = [0; 10];
    file.read_at(&mut buf, 3 * PAGE).unwrap();
    assert_eq!(buf, [7; 10]);
}

/// A task that its waker runs at once, on whatever thread.
struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Inline {
    fn run(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut task = self.0.lock().unwrap();
        if let Some(future) = &mut *task
            && future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
        {
            *task = None;
        }
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

#[test]
fn a_task_may_be_run_by_its_waker_and_drop_the_last_handle_there() {
    bounded("a task", || {
        for choice in [Choice::Auto, Choice::Worker] {
            for nr in 0..50 {
                let dir = scratch::dir();
                let path = dir.path().join("file");
                std::fs::write(&path, content(11, 100_000)).unwrap();
                let cache = cache(choice, 4 << 20);
                let options = OpenOptions::new().direct(Direct::Auto).write();
                let file = cache.open_with(&path, &options).unwrap();
                let is_done = Arc::new(AtomicUsize::new(0));
                let task = {
                    let is_done = Arc::clone(&is_done);
                    async move {
                        let (_, result) = file.read_at_async(vec![0; 10], nr * 1000).await;
                        assert_eq!(result.unwrap(), 10);
                        // The last handle goes on the engine's thread, or on a caller's.
                        if nr % 2 == 0 {
                            let (_, result) = file.append_async(vec![1; 10]).await;
                            assert_eq!(result.unwrap(), 100_000..100_010);
                            file.sync_data_async().await.unwrap();
                        }
                        drop(file);
                        is_done.store(1, Ordering::Release);
                    }
                };
                Arc::new(Inline(Mutex::new(Some(Box::pin(task))))).run();
                until("the task has ended", || {
                    is_done.load(Ordering::Acquire) == 1
                });
                assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
            }
        }
    });
}

#[test]
fn readers_that_wait_wake_tasks_and_the_other_way_round() {
    bounded("threads and tasks", || {
        let bytes = content(12, 1 << 20);
        let (gate, storage) = gated(&bytes);
        let cache = cache(Choice::Worker, 4 << 20);
        let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
        thread::scope(|scope| {
            // The thread reads, the task waits for it.
            scope.spawn(|| {
                let mut buf = [0; 10];
                file.read_at(&mut buf, 5).unwrap();
                assert!(buf == bytes[5..15]);
            });
            gate.wait_for(1);
            let task = scope.spawn(|| block_on(file.read_at_async(vec![0; 10], 7)));
            thread::sleep(Duration::from_millis(20));
            assert!(!task.is_finished());
            gate.open();
            let (buf, result) = task.join().unwrap();
            assert_eq!(result.unwrap(), 10);
            assert!(buf == bytes[7..17]);
        });
        assert_eq!(storage.nr_reads(), 1);
    });
}

/// A waker that ran its task on the ring's thread had that thread wait, for reads of its own ring, when the task dropped the file.
#[test]
fn a_task_that_its_waker_runs_may_drop_a_file_with_reads_in_flight() {
    const PAGES: u64 = 199;
    bounded("a waker that drops a file", || {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        let bytes = content(10, (2 * PAGES * PAGE) as usize);
        std::fs::write(&path, &bytes).unwrap();
        for choice in [Choice::Auto, Choice::Worker, Choice::Sync] {
            for _ in 0..10 {
                let cache = cache(choice, 4 << 20);
                let file = cache.open(&path).unwrap();
                let (done, is_done) = std::sync::mpsc::channel();
                let start = bytes[..8].to_vec();
                let task = async move {
                    let odd = |nr| (2 * nr + 1) * PAGE..(2 * nr + 2) * PAGE;
                    {
                        let mut read = std::pin::pin!(file.read_at_async(vec![0; 8], 0));
                        // Begun before the others, it is done before them.
                        let begin =
                            |context: &mut Context<'_>| Poll::Ready(read.as_mut().poll(context));
                        let begun = std::future::poll_fn(begin).await;
                        let ranges: Vec<_> = (0..PAGES).map(odd).collect();
                        file.prefetch(&ranges).unwrap();
                        let (buf, result) = match begun {
                            Poll::Ready(done) => done,
                            Poll::Pending => read.await,
                        };
                        assert_eq!(result.unwrap(), 8);
                        assert!(buf == start);
                    }
                    drop(file);
                    done.send(()).unwrap();
                };
                Arc::new(Inline(Mutex::new(Some(Box::pin(task))))).run();
                is_done.recv().unwrap();
                // The engine is of use still.
                let file = cache.open(&path).unwrap();
                let (_, result) = block_on(file.read_at_async(vec![0; 8], 2 * PAGE));
                assert_eq!(result.unwrap(), 8);
            }
        }
    });
}

/// All threads for calls wait in syncs, as they may at pages that the woken task has locked.
#[test]
fn a_task_is_woken_when_every_thread_for_calls_waits() {
    // A file with one call in progress leaves threads to others, as long as any is left.
    const NR_HUNG: usize = 256;
    bounded("a task that is to be woken", || {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        let bytes = content(14, 10 * PAGE as usize);
        std::fs::write(&path, &bytes).unwrap();
        for choice in [Choice::Auto, Choice::Worker] {
            let cache = cache(choice, 64 << 20);
            let gate = Arc::new(Gate::new());
            let hung: Vec<File> = (0..NR_HUNG)
                .map(|nr| {
                    let gate = Arc::clone(&gate);
                    let script = move |operation: &Operation| {
                        if matches!(operation, Operation::SyncData) {
                            gate.pass();
                        }
                        Fault::None
                    };
                    let storage = MemoryBackend::writable(Vec::new());
                    let storage = FaultBackend::with_script(storage, script);
                    let options = OpenOptions::new().write();
                    cache
                        .open_backend_with(storage, format!("hung {nr}"), &options)
                        .unwrap()
                })
                .collect();
            for file in &hung {
                file.write_at(&[1], 0).unwrap();
            }
            let mut syncs: Vec<_> = hung
                .iter()
                .map(|file| Box::pin(file.sync_data_async()))
                .collect();
            for sync in &mut syncs {
                assert!(poll_once(sync).is_pending());
            }
            gate.wait_for(NR_HUNG);
            let file = cache.open(&path).unwrap();
            let (buf, result) = block_on(file.read_at_async(vec![0; 10], 5 * PAGE));
            assert_eq!(result.unwrap(), 10);
            assert!(buf == bytes[5 * PAGE as usize..][..10]);
            gate.open();
            for sync in syncs {
                block_on(sync).unwrap();
            }
        }
    });
}

/// The thread that calls wakers loses its turn while one of them blocks.
#[test]
fn wakers_that_block_keep_no_other_task_from_being_woken() {
    const READS: u64 = 30;
    struct Blocks(Arc<Gate>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            self.0.pass();
        }
    }
    #[derive(Default)]
    struct Woken(AtomicU64);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    bounded("tasks beside wakers that block", || {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        let bytes = content(15, (2 * READS * PAGE) as usize);
        std::fs::write(&path, &bytes).unwrap();
        for choice in [Choice::Auto, Choice::Worker] {
            let cache = cache(choice, 4 << 20);
            let file = cache.open(&path).unwrap();
            // The reads of this file end when all are pending.
            let begun = Arc::new(Gate::new());
            let script = {
                let begun = Arc::clone(&begun);
                move |operation: &Operation| {
                    if matches!(operation, Operation::Read { .. }) {
                        begun.pass();
                    }
                    Fault::None
                }
            };
            let storage = MemoryBackend::new(bytes.clone());
            let storage = FaultBackend::with_script(storage, script);
            let held = cache.open_backend(storage, "held").unwrap();
            held.advise(0..0, Advice::Random).unwrap();
            let read = |page| Box::pin(held.read_at_async(vec![0; 8], page * PAGE));
            let gate = Arc::new(Gate::new());
            let waker = Waker::from(Arc::new(Blocks(Arc::clone(&gate))));
            let mut blocked: Vec<_> = (0..READS).map(|nr| read(2 * nr)).collect();
            for read in &mut blocked {
                let poll = read.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(poll.is_pending());
            }
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(Arc::clone(&woken));
            let mut others: Vec<_> = (0..READS).map(|nr| read(2 * nr + 1)).collect();
            for read in &mut others {
                let poll = read.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(poll.is_pending());
            }
            begun.open();
            until("the other tasks are woken", || {
                woken.0.load(Ordering::SeqCst) >= READS
            });
            for read in others {
                assert_eq!(block_on(read).1.unwrap(), 8);
            }
            gate.wait_for(2);
            for nr in 0..2 * READS {
                let read = file.read_at_async(vec![0; 8], nr * PAGE);
                assert_eq!(block_on(read).1.unwrap(), 8);
            }
            gate.open();
            drop(blocked);
        }
    });
}
