//! Readers of a page whose read fails.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use pagewell_io::MemoryBackend;
use pagewell_io::engine::{Choice, Settings};
use pagewell_io_testing::{Fault, FaultBackend};
use pagewell_testkit::content;
use pagewell_testkit::wait::{Gate, OpenAtEnd, block_on, bounded, until};

use crate::api::builder::Builder;
use crate::api::cache::Cache;
use crate::api::file::File;
use crate::api::options::OpenOptions;
use crate::base::error::{Error, ErrorKind, Op};

use super::*;

const PAGE: usize = 4096;
const NR_PAGES: usize = 4;
const NR_THREADS: usize = 8;
const NR_TASKS: usize = 8;

type Storage = FaultBackend<MemoryBackend>;

/// Opens a file. The first read waits at `gate`. `fails` gets the number of a read and its length.
fn open(
    choice: Choice,
    gate: &Arc<Gate>,
    fails: impl Fn(usize, usize) -> bool + Send + Sync + 'static,
) -> (Arc<Storage>, Cache, File, Vec<u8>) {
    let (gate, nr_reads) = (Arc::clone(gate), AtomicUsize::new(0));
    open_with(choice, move |_, len| {
        let nr = nr_reads.fetch_add(1, Ordering::Relaxed);
        if nr == 0 {
            gate.pass();
        }
        fails(nr, len)
    })
}

/// Opens a writable file. `fails` gets position and length of a read, and may hold the read.
fn open_with(
    choice: Choice,
    fails: impl Fn(u64, usize) -> bool + Send + Sync + 'static,
) -> (Arc<Storage>, Cache, File, Vec<u8>) {
    let bytes = content(1, NR_PAGES * PAGE);
    let memory = MemoryBackend::writable(bytes.clone());
    let storage = FaultBackend::new(memory, move |pos, len| match fails(pos, len) {
        true => Fault::Fail(io::Error::other("a bad sector")),
        false => Fault::None,
    });
    let storage = Arc::new(storage);
    let settings = Settings::new(choice);
    let builder = Builder::default().capacity(4 << 20).engine(settings);
    let cache: Cache = builder.build().unwrap();
    let options = OpenOptions::new().write();
    let file = cache.open_backend_with(Arc::clone(&storage), "file", &options);
    (storage, cache, file.unwrap(), bytes)
}

fn is_pending(task: &mut (impl Future + Unpin)) -> bool {
    poll(task, Waker::noop()).is_pending()
}

fn poll<F: Future + Unpin>(task: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(task).poll(&mut Context::from_waker(waker))
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn nr(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn assert_bad_sector(result: Result<usize, Error>) {
    let error = result.expect_err("the read fails");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let source = std::error::Error::source(&error).expect("the backend's error");
    assert_eq!(source.to_string(), "a bad sector");
}

/// Whether the reader whose read fails first is a thread or a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Thread,
    Task,
}

/// Lets threads and tasks wait for pages whose read fails. All of them must get the error.
fn fail_beside_followers(
    (choice, leader, nr_pages): (Choice, Leader, usize),
    fails: fn(usize, usize) -> bool,
) -> Arc<Storage> {
    let what = format!("{leader:?} of {nr_pages} pages, {choice:?}");
    bounded(&what, move || {
        let gate = Arc::new(Gate::new());
        let (storage, _cache, file, _) = open(choice, &gate, fails);
        let nr_waiting = || file.mapping().followers.nr_waiting(0);
        let buf = || vec![1; nr_pages * PAGE];
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let read = || file.read_at(&mut buf(), 0);
            let mut leading = file.read_at_async(buf(), 0);
            let leading_thread = (leader == Leader::Thread).then(|| scope.spawn(read));
            if leader == Leader::Task {
                assert!(is_pending(&mut leading));
            }
            gate.wait_for(1);
            let threads: Vec<_> = (0..NR_THREADS).map(|_| scope.spawn(read)).collect();
            let mut tasks: Vec<_> = (0..NR_TASKS)
                .map(|_| file.read_at_async(buf(), 0))
                .collect();
            for task in &mut tasks {
                assert!(is_pending(task));
            }
            until("all readers wait", || nr_waiting() == NR_THREADS + NR_TASKS);
            assert_eq!(storage.nr_reads(), 1);
            gate.open();
            match leading_thread {
                Some(thread) => assert_bad_sector(thread.join().unwrap()),
                None => assert_bad_sector(block_on(leading).1),
            }
            for thread in threads {
                assert_bad_sector(thread.join().unwrap());
            }
            for task in tasks {
                let (buf, result) = block_on(task);
                assert_bad_sector(result);
                assert!(buf[..PAGE].iter().all(|byte| *byte == 0));
            }
        });
        assert!(lock(&file.mapping().followers.reports).is_empty());
        storage
    })
}

fn modes() -> impl Iterator<Item = (Choice, Leader)> {
    let choices = [Choice::Auto, Choice::Worker];
    let of_choice = |choice| [Leader::Thread, Leader::Task].map(|leader| (choice, leader));
    choices.into_iter().flat_map(of_choice)
}

#[test]
fn readers_that_wait_for_a_failed_fill_get_its_error() {
    for (choice, leader) in modes() {
        let storage = fail_beside_followers((choice, leader, 1), |nr, _| nr == 0);
        assert_eq!(storage.nr_reads(), 1, "{leader:?}, {choice:?}");
    }
}

/// After a failed read of several pages, the followers try the page alone too.
#[test]
fn a_failed_read_of_several_pages_is_not_repeated_by_followers() {
    static NR_LONG: AtomicUsize = AtomicUsize::new(0);
    for (choice, leader) in modes() {
        NR_LONG.store(0, Ordering::Relaxed);
        fail_beside_followers((choice, leader, NR_PAGES), |_, len| {
            NR_LONG.fetch_add(usize::from(len > PAGE), Ordering::Relaxed);
            true
        });
        assert_eq!(NR_LONG.load(Ordering::Relaxed), 1, "{leader:?}, {choice:?}");
    }
}

/// Readers that wait for a later page follow the first of them that tries this page alone.
#[test]
fn followers_of_a_failed_transfer_read_a_page_once() {
    const LATER: u64 = 2 * PAGE as u64;
    for (choice, leader) in modes() {
        bounded(&format!("{leader:?}, {choice:?}"), move || {
            let gates = [(); 2].map(|()| Arc::new(Gate::new()));
            let [together, alone] = gates.clone();
            let (storage, _cache, file, _) = open_with(choice, move |pos, len| {
                match (pos, len) {
                    (_, len) if len > PAGE => together.pass(),
                    (LATER, _) => alone.pass(),
                    _ => {}
                }
                true
            });
            let [together, alone] = &gates;
            let nr_waiting = || file.mapping().followers.nr_waiting(2);
            let buf = || vec![1; NR_PAGES * PAGE];
            std::thread::scope(|scope| {
                let _open = gates.each_ref().map(|gate| OpenAtEnd(gate));
                let mut leading = file.read_at_async(buf(), 0);
                let leading_thread =
                    (leader == Leader::Thread).then(|| scope.spawn(|| file.read_at(&mut buf(), 0)));
                if leader == Leader::Task {
                    assert!(is_pending(&mut leading));
                }
                together.wait_for(1);
                let wakes: Vec<_> = (0..NR_TASKS).map(|_| Arc::new(Wakes::default())).collect();
                let mut tasks: Vec<_> = wakes
                    .iter()
                    .map(|_| file.read_at_async(vec![1; PAGE], LATER))
                    .collect();
                for (task, wakes) in tasks.iter_mut().zip(&wakes) {
                    assert!(poll(task, &Waker::from(Arc::clone(wakes))).is_pending());
                }
                assert_eq!(nr_waiting(), NR_TASKS);
                together.open();
                until("all are woken", || {
                    wakes.iter().all(|wakes| wakes.nr() == 1)
                });
                for (task, wakes) in tasks.iter_mut().zip(&wakes) {
                    assert!(poll(task, &Waker::from(Arc::clone(wakes))).is_pending());
                }
                alone.wait_for(1);
                alone.open();
                for task in tasks {
                    assert_bad_sector(block_on(task).1);
                }
                match leading_thread {
                    Some(thread) => assert_bad_sector(thread.join().unwrap()),
                    None => assert_bad_sector(block_on(leading).1),
                }
            });
            // Of all pages, of the leader's page, and of the later one.
            assert_eq!(storage.nr_reads(), 3);
            assert!(lock(&file.mapping().followers.reports).is_empty());
        });
    }
}

/// Readers that wait for a fill that fails return although the page is read again.
#[test]
fn followers_of_a_failed_fill_do_not_wait_for_the_next() {
    for choice in [Choice::Auto, Choice::Worker] {
        bounded(&format!("{choice:?}"), move || {
            let gates = [(); 2].map(|()| Arc::new(Gate::new()));
            let (at_gates, nr_reads) = (gates.clone(), AtomicUsize::new(0));
            let (storage, _cache, file, _) = open_with(choice, move |_, _| {
                let nr = nr_reads.fetch_add(1, Ordering::Relaxed);
                at_gates[nr].pass();
                nr == 0
            });
            let [first, second] = &gates;
            let nr_waiting = || file.mapping().followers.nr_waiting(0);
            std::thread::scope(|scope| {
                let _open = gates.each_ref().map(|gate| OpenAtEnd(gate));
                let read = || file.read_at(&mut [1; PAGE], 0);
                let leader = scope.spawn(move || (read(), read()));
                first.wait_for(1);
                let threads: Vec<_> = (0..NR_THREADS).map(|_| scope.spawn(read)).collect();
                let wakes = Arc::new(Wakes::default());
                let waker = Waker::from(Arc::clone(&wakes));
                let mut tasks: Vec<_> = (0..NR_TASKS)
                    .map(|_| file.read_at_async(vec![1; PAGE], 0))
                    .collect();
                for task in &mut tasks {
                    assert!(poll(task, &waker).is_pending());
                }
                until("all readers wait", || nr_waiting() == NR_THREADS + NR_TASKS);
                first.open();
                second.wait_for(1);
                until("all tasks are woken", || wakes.nr() == NR_TASKS);
                for task in &mut tasks {
                    match poll(task, Waker::noop()) {
                        Poll::Ready((_, result)) => assert_bad_sector(result),
                        Poll::Pending => panic!("a task waits for the second read"),
                    }
                }
                for thread in threads {
                    assert_bad_sector(thread.join().unwrap());
                }
                assert_eq!(storage.nr_reads(), 2);
                second.open();
                let (failed, read_again) = leader.join().unwrap();
                assert_bad_sector(failed);
                assert_eq!(read_again.unwrap(), PAGE);
            });
        });
    }
}

/// Writes of a part of a page need its other bytes, so they fail with its fill too.
#[test]
fn partial_writes_that_wait_for_a_failed_fill_get_its_error() {
    bounded("partial writes", || {
        let gate = Arc::new(Gate::new());
        let (storage, _cache, file, bytes) = open(Choice::Worker, &gate, |nr, _| nr == 0);
        let nr_waiting = || file.mapping().followers.nr_waiting(0);
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let leader = scope.spawn(|| file.read_at(&mut [1; PAGE], 0));
            gate.wait_for(1);
            let write = || file.write_at(&[1; 8], 8);
            let writers: Vec<_> = (0..NR_THREADS).map(|_| scope.spawn(write)).collect();
            until("all writers wait", || nr_waiting() == NR_THREADS);
            gate.open();
            assert_bad_sector(leader.join().unwrap());
            for writer in writers {
                let result = writer.join().unwrap();
                assert_eq!(result.as_ref().unwrap_err().op(), Op::Write);
                assert_bad_sector(result);
            }
        });
        assert_eq!(storage.nr_reads(), 1);
        let mut buf = vec![0; PAGE];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), PAGE);
        assert!(buf == bytes[..PAGE]);
    });
}

/// A later reader gets no error of an earlier fill, even while a follower still has its report.
#[test]
fn later_readers_read_anew() {
    let gate = Arc::new(Gate::new());
    gate.open();
    let (storage, _cache, file, bytes) = open(Choice::Worker, &gate, |nr, _| nr == 0);
    let followers = &file.mapping().followers;
    let early = Followers::join(followers, 0);
    assert!(early.error().is_none());
    let mut buf = vec![0; PAGE];
    assert_bad_sector(file.read_at(&mut buf, 0));
    assert_eq!(early.error().expect("an error").kind(), ErrorKind::Io);
    let late = Followers::join(followers, 0);
    assert!(late.error().is_none() && !late.has_failed_together());
    drop(early);
    assert_eq!(followers.nr_waiting(0), 1);
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), PAGE);
    assert!(buf == bytes[..PAGE]);
    assert_eq!(storage.nr_reads(), 2);
    drop(late);
    assert!(lock(&followers.reports).is_empty());
}

/// A task that is dropped while it waits leaves no report behind.
#[test]
fn dropped_tasks_leave_the_report_of_the_page() {
    let gate = Arc::new(Gate::new());
    let (_, _cache, file, bytes) = open(Choice::Worker, &gate, |_, _| false);
    let _open = OpenAtEnd(&gate);
    let mut tasks = [(); 3].map(|()| file.read_at_async(vec![0; PAGE], 0));
    for task in &mut tasks {
        assert!(is_pending(task));
    }
    let followers = &file.mapping().followers;
    assert_eq!(followers.nr_waiting(0), 2);
    let [leader, first, second] = tasks;
    drop((first, second));
    assert!(lock(&followers.reports).is_empty());
    gate.open();
    let (buf, result) = block_on(leader);
    assert_eq!(result.unwrap(), PAGE);
    assert!(buf == bytes[..PAGE]);
}

/// A task that has its page leaves the report before its future is dropped.
#[test]
fn tasks_that_have_their_page_leave_the_report_of_the_page() {
    let gate = Arc::new(Gate::new());
    let (_, _cache, file, bytes) = open(Choice::Worker, &gate, |_, _| false);
    let _open = OpenAtEnd(&gate);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut tasks = [(); 3].map(|()| file.pin_async(0));
    for task in &mut tasks {
        assert!(poll(task, &waker).is_pending());
    }
    let followers = &file.mapping().followers;
    assert_eq!(followers.nr_waiting(0), 2);
    gate.open();
    until("all tasks are woken", || wakes.nr() == tasks.len());
    for task in &mut tasks {
        match poll(task, &waker) {
            Poll::Ready(pin) => assert!(pin.unwrap().to_vec() == bytes[..PAGE]),
            Poll::Pending => panic!("a task waits for a page that is resident"),
        }
    }
    assert!(lock(&followers.reports).is_empty());
}
