//! The contract of engines, checked on each of them, over each kind of storage.

#![cfg(not(loom))]

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use pagewell_io::engine::{Deferred, Engine, GivenUp, Job, Kind, RawFile, Request};
use pagewell_io::{Backend, Direct, FileBackend, FileId, FileOptions, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend, Operation};
use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded, not_yet, until};

use support::{Memory, Rng, UNTOUCHED, content, engines, read_all, rings, write};

mod support;

/// A file with these bytes, which has no name.
fn file(bytes: &[u8], direct: Direct, dir: &Path) -> FileBackend {
    let path = dir.join("file");
    let options = FileOptions::new().create_new().direct(direct);
    let file = FileBackend::open_writable(&path, &options).unwrap();
    std::fs::remove_file(&path).unwrap();
    write(&file, 0, bytes).unwrap();
    file
}

/// A storage that completes on a thread of its own, the last request first.
#[derive(Debug)]
struct Later {
    inner: Arc<MemoryBackend>,
    requests: Arc<(Mutex<VecDeque<Request>>, Condvar)>,
}

impl Later {
    fn new(bytes: Vec<u8>) -> Self {
        let inner = Arc::new(MemoryBackend::writable(bytes));
        let requests = Arc::new((Mutex::new(VecDeque::<Request>::new()), Condvar::new()));
        let (storage, inbox) = (Arc::clone(&inner), Arc::downgrade(&requests));
        thread::spawn(move || {
            while let Some(requests) = inbox.upgrade() {
                let list = requests.0.lock().unwrap();
                let wait = std::time::Duration::from_millis(10);
                let next = requests
                    .1
                    .wait_timeout_while(list, wait, |list| list.is_empty());
                let next = next.unwrap().0.pop_back();
                let Some(request) = next else {
                    continue;
                };
                let result = match request.kind() {
                    Kind::Read => storage.read_at(&request.buffers(), request.pos()),
                    Kind::Write => {
                        let nr = request.nr_left();
                        let written = storage.write_at(&request.sources(), request.pos());
                        written.map(|()| nr)
                    }
                    Kind::SyncData => storage.sync_data().map(|()| 0),
                    Kind::SetSize(size) => storage.set_size(size).map(|()| 0),
                    _ => storage.sync_all().map(|()| 0),
                };
                request.complete(result);
            }
        });
        Self { inner, requests }
    }
}

impl Backend for Later {
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

    fn deferred(&self) -> Option<&dyn Deferred> {
        Some(self)
    }
}

impl Deferred for Later {
    fn start(&self, request: Request) {
        self.requests.0.lock().unwrap().push_back(request);
        self.requests.1.notify_one();
    }
}

/// A file whose raw file is asked for: one of the answers is a panic, or differs from the others.
#[derive(Debug)]
struct Fickle {
    file: Arc<FileBackend>,
    nr_asked: AtomicUsize,
    /// The call that is answered so.
    at: usize,
    panics: bool,
}

impl Backend for Fickle {
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

    fn raw_file(self: Arc<Self>) -> Option<Arc<dyn RawFile>> {
        if self.nr_asked.fetch_add(1, Ordering::Relaxed) == self.at {
            assert!(!self.panics, "made to panic");
            return None;
        }
        Arc::clone(&self.file).raw_file()
    }
}

/// Each kind of storage that can be written, with these bytes.
fn storages(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Arc<dyn Backend>)> {
    let sane = FaultBackend::with_script(MemoryBackend::writable(bytes.to_vec()), |_| Fault::None);
    vec![
        ("file", Arc::new(file(bytes, Direct::Never, dir))),
        ("direct file", Arc::new(file(bytes, Direct::Auto, dir))),
        ("memory", Arc::new(MemoryBackend::writable(bytes.to_vec()))),
        ("wrapped memory", Arc::new(sane)),
        ("deferred memory", Arc::new(Later::new(bytes.to_vec()))),
    ]
}

/// Each engine with each storage.
fn each(bytes: &[u8], mut check: impl FnMut(&str, &Arc<dyn Engine>, &Arc<dyn Backend>)) {
    let dir = pagewell_testkit::scratch::dir();
    for (engine_name, engine) in engines() {
        for (name, storage) in storages(bytes, dir.path()) {
            check(&format!("{engine_name}, {name}"), &engine, &storage);
        }
    }
}

/// Where results go: each at its number, at most once.
#[derive(Clone, Default)]
struct Results(Arc<(Mutex<List>, Condvar)>);

type List = Vec<Option<io::Result<usize>>>;

impl Results {
    fn of(nr: usize) -> Self {
        let results = Self::default();
        results.0.0.lock().unwrap().resize_with(nr, || None);
        results
    }

    fn note(&self, number: usize) -> impl FnOnce(io::Result<usize>) + Send + 'static + use<> {
        let results = self.clone();
        move |result| {
            let mut list = results.0.0.lock().unwrap();
            assert!(list[number].replace(result).is_none(), "twice: {number}");
            drop(list);
            results.0.1.notify_all();
        }
    }

    fn nr_done(&self) -> usize {
        let list = self.0.0.lock().unwrap();
        list.iter().filter(|result| result.is_some()).count()
    }

    /// Waits for all.
    fn all(&self) -> Vec<io::Result<usize>> {
        let (results, limit) = (self.clone(), pagewell_testkit::wait::limit());
        let (mut list, timeout) = results
            .0
            .1
            .wait_timeout_while(self.0.0.lock().unwrap(), limit, |list| {
                list.iter().any(Option::is_none)
            })
            .unwrap();
        assert!(!timeout.timed_out(), "not all are completed");
        list.drain(..).flatten().collect()
    }
}

/// The ways in which requests are given and waited for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Submit,
    SubmitAll,
    Run,
    Lane,
}

const WAYS: [Way; 4] = [Way::Submit, Way::SubmitAll, Way::Run, Way::Lane];

/// Has `engine` do these for `storage`, in some way, and waits for them.
fn perform(
    engine: &dyn Engine,
    way: Way,
    jobs: Vec<Job>,
    results: &Results,
) -> Vec<io::Result<usize>> {
    let mut jobs = jobs;
    match way {
        Way::Submit => jobs.drain(..).for_each(|job| engine.submit(job)),
        Way::SubmitAll => engine.submit_all(&mut jobs),
        Way::Run => engine.run(&mut jobs),
        Way::Lane => {
            let mut lane = engine.lane();
            let nr = jobs.len();
            let mut nr_done = 0;
            for job in jobs.drain(..) {
                lane.submit(job);
                if lane.nr_in_flight() == 40 {
                    nr_done += lane.wait(1);
                }
            }
            while nr_done < nr {
                let nr_new = lane.wait(3);
                assert!(nr_new >= 3.min(nr - nr_done));
                nr_done += nr_new;
            }
            assert_eq!((nr_done, lane.nr_in_flight(), lane.wait(9)), (nr, 0, 0));
        }
    }
    assert!(jobs.is_empty());
    if matches!(way, Way::Run | Way::Lane) {
        assert_eq!(results.nr_done(), results.0.0.lock().unwrap().len());
    }
    results.all()
}

#[test]
fn reads_get_what_is_there_up_to_the_end_in_every_way() {
    let bytes = content(150_000);
    each(&bytes, |name, engine, storage| {
        for way in WAYS {
            let places = [
                (0, vec![4096]),
                (4096, vec![4096; 8]),
                (100, vec![7, 0, 300]),
                (147_456, vec![4096]),
                (147_456, vec![4096, 4096]),
                (149_999, vec![1, 1]),
                (150_000, vec![4096]),
                (151_552, vec![4096]),
                (1 << 40, vec![4096]),
                (i64::MAX as u64, vec![10]),
                (u64::MAX - 3, vec![4]),
                (u64::MAX, vec![4096]),
                (0, vec![]),
                (0, vec![0]),
                (0, vec![16; 3000]),
                (0, vec![200_000]),
            ];
            let results = Results::of(places.len());
            let memories: Vec<_> = places
                .iter()
                .map(|(_, lens)| Memory::new(lens.iter().sum()))
                .collect();
            let jobs =
                places
                    .iter()
                    .zip(&memories)
                    .enumerate()
                    .map(|(nr, ((pos, lens), memory))| {
                        Job::new(
                            Arc::clone(storage),
                            memory.read(*pos, lens, results.note(nr)),
                        )
                    });
            let done = perform(&**engine, way, jobs.collect(), &results);
            for (((pos, lens), memory), result) in places.iter().zip(&memories).zip(done) {
                let what = format!("{name}, {way:?}, {} from {pos} on", lens.len());
                let total: usize = lens.iter().sum();
                let start = usize::try_from(*pos).map_or(bytes.len(), |pos| pos.min(bytes.len()));
                let expected = &bytes[start..][..total.min(bytes.len() - start)];
                assert_eq!(result.unwrap(), expected.len(), "{what}");
                let got = memory.bytes();
                assert!(got[..expected.len()] == *expected, "{what}");
                // A direct read of the block that has the end may leave zeros.
                assert!(
                    got[expected.len()..]
                        .iter()
                        .all(|&b| b == UNTOUCHED || b == 0),
                    "{what}"
                );
            }
        }
    });
}

#[test]
fn holes_are_zeros() {
    each(&content(10), |name, engine, storage| {
        let results = Results::of(3);
        let size = Request::set_size(100_000, Box::new(results.note(0)));
        engine.run(&mut vec![Job::new(Arc::clone(storage), size)]);
        let memory = Memory::with_bytes(&content(4096));
        let end = memory.write(200_704, &[4096], results.note(1));
        engine.run(&mut vec![Job::new(Arc::clone(storage), end)]);
        let read = Memory::new(204_800);
        let all = read.read(0, &[204_800], results.note(2));
        engine.run(&mut vec![Job::new(Arc::clone(storage), all)]);
        let mut expected = content(10);
        expected.resize(200_704, 0);
        expected.extend(content(4096));
        let results: Vec<_> = results.all().into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [0, 4096, 204_800], "{name}");
        assert!(read.bytes() == expected, "{name}");
    });
}

#[test]
fn many_writes_at_once_of_any_alignment_leave_what_a_vector_would_have() {
    let mut rng = Rng::new(7);
    each(&content(9000), |name, engine, storage| {
        for way in WAYS {
            let mut model = read_all(&**storage);
            // Places that do not meet, so that any order gives the same.
            let mut pos = rng.below(3000);
            let mut places = Vec::new();
            while places.len() < 60 {
                let len = [1 + rng.below(9000), 4096, 512][rng.below(3)];
                places.push((pos, len));
                pos += len + [0, rng.below(2000)][rng.below(2)];
                pos = [pos, pos.next_multiple_of(4096)][rng.below(2)];
            }
            let results = Results::of(places.len());
            let mut jobs = Vec::new();
            for (nr, (pos, len)) in places.iter().enumerate() {
                let bytes: Vec<u8> = (0..*len).map(|_| rng.next() as u8).collect();
                if model.len() < pos + len {
                    model.resize(pos + len, 0);
                }
                model[*pos..pos + len].copy_from_slice(&bytes);
                let memory = Memory::with_bytes(&bytes);
                let lens = [vec![len / 3, len - len / 3], vec![*len]];
                let request = memory.write(*pos as u64, &lens[rng.below(2)], results.note(nr));
                jobs.push(Job::new(Arc::clone(storage), request));
            }
            // In any order.
            for nr in 0..jobs.len() {
                let other = rng.below(jobs.len());
                jobs.swap(nr, other);
            }
            let done = perform(&**engine, way, jobs, &results);
            for (result, (_, len)) in done.into_iter().zip(&places) {
                assert_eq!(result.unwrap(), *len, "{name}, {way:?}");
            }
            assert!(read_all(&**storage) == model, "{name}, {way:?}");
        }
    });
}

#[test]
fn thousands_complete_once_each_also_when_the_engine_is_dropped_at_once() {
    let dir = pagewell_testkit::scratch::dir();
    let bytes = content(1 << 20);
    for direct in [Direct::Never, Direct::Auto] {
        let storage: Arc<dyn Backend> = Arc::new(file(&bytes, direct, dir.path()));
        for (name, engine) in engines() {
            let results = Results::of(5000);
            let memories: Vec<_> = (0..5000).map(|_| Memory::new(4096)).collect();
            for (nr, memory) in memories.iter().enumerate() {
                let pos = (nr % 256) as u64 * 4096;
                let request = memory.read(pos, &[4096], results.note(nr));
                engine.submit(Job::new(Arc::clone(&storage), request));
            }
            drop(engine);
            for (nr, result) in results.all().into_iter().enumerate() {
                assert_eq!(result.unwrap(), 4096, "{name}");
                let start = nr % 256 * 4096;
                assert!(memories[nr].bytes() == bytes[start..][..4096], "{name}");
            }
        }
    }
}

#[test]
fn several_threads_use_one_engine_in_every_way() {
    let dir = pagewell_testkit::scratch::dir();
    let bytes = content(1 << 20);
    let storage: Arc<dyn Backend> = Arc::new(file(&bytes, Direct::Auto, dir.path()));
    for (name, engine) in engines() {
        thread::scope(|scope| {
            for thread in 0..6_usize {
                let (engine, storage, bytes) = (&engine, &storage, &bytes);
                scope.spawn(move || {
                    for round in 0..20_usize {
                        let results = Results::of(33);
                        let memories: Vec<_> = (0..33).map(|_| Memory::new(4096)).collect();
                        let page = |nr: usize| (nr * 7 + round * 31 + thread) % 256 * 4096;
                        let jobs = memories.iter().enumerate().map(|(nr, memory)| {
                            let request = memory.read(page(nr) as u64, &[4096], results.note(nr));
                            Job::new(Arc::clone(storage), request)
                        });
                        let way = WAYS[(thread + round) % 4];
                        for (nr, result) in perform(&**engine, way, jobs.collect(), &results)
                            .into_iter()
                            .enumerate()
                        {
                            assert_eq!(result.unwrap(), 4096, "{name}");
                            assert!(memories[nr].bytes() == bytes[page(nr)..][..4096], "{name}");
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn completions_may_give_more_requests_in_a_chain_of_any_length() {
    struct Chain {
        engine: Arc<dyn Engine>,
        storage: Arc<dyn Backend>,
        left: AtomicUsize,
    }
    fn next(chain: &Arc<Chain>) {
        if chain.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return;
        }
        let memory = Memory::new(64);
        let again = Arc::clone(chain);
        let request = memory.read(0, &[64], move |result| {
            assert_eq!(result.unwrap(), 64);
            next(&again);
        });
        chain
            .engine
            .submit(Job::new(Arc::clone(&chain.storage), request));
    }
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(64), Direct::Never, dir.path()));
    for (name, engine) in engines() {
        let chain = Arc::new(Chain {
            engine,
            storage: Arc::clone(&storage),
            left: AtomicUsize::new(8_000),
        });
        next(&chain);
        until(name, || chain.left.load(Ordering::Relaxed) == 0);
    }
}

#[test]
fn a_completion_that_panics_harms_nobody_else_and_who_waits_is_told() {
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(4096 * 8), Direct::Auto, dir.path()));
    for (name, engine) in engines() {
        let job = |nr: usize, results: &Results| {
            let note = results.note(nr);
            let request = Memory::new(4096).read(nr as u64 * 4096, &[4096], move |result| {
                note(result);
                assert!(nr % 3 != 1, "on purpose");
            });
            Job::new(Arc::clone(&storage), request)
        };
        for nr in [1, 2, 8] {
            let results = Results::of(nr);
            let mut jobs: Vec<_> = (0..nr).map(|nr| job(nr, &results)).collect();
            let outcome = catch_unwind(AssertUnwindSafe(|| engine.run(&mut jobs)));
            assert_eq!(outcome.is_err(), nr > 1, "{name}");
            assert_eq!(results.nr_done(), nr, "{name}");
        }
        let results = Results::of(8);
        (0..8).for_each(|nr| engine.submit(job(nr, &results)));
        assert!(
            results
                .all()
                .into_iter()
                .all(|result| result.unwrap() == 4096),
            "{name}"
        );

        // The lane goes on.
        let results = Results::of(6);
        let mut lane = engine.lane();
        (0..6).for_each(|nr| lane.submit(job(nr, &results)));
        while results.nr_done() < 6 {
            let _ = catch_unwind(AssertUnwindSafe(|| lane.wait(6)));
        }
        drop(lane);
        assert!(
            results
                .all()
                .into_iter()
                .all(|result| result.unwrap() == 4096),
            "{name}"
        );
    }
}

#[test]
fn a_storage_that_panics_or_fails_makes_an_error() {
    for (name, engine) in engines() {
        let faulty =
            FaultBackend::with_script(MemoryBackend::writable(content(9)), |call| match call {
                Operation::Read { .. } => panic!("on purpose"),
                Operation::Write { .. } => Fault::Fail(io::ErrorKind::StorageFull.into()),
                _ => Fault::Fail(io::Error::from_raw_os_error(libc::EIO)),
            });
        let storage: Arc<dyn Backend> = Arc::new(faulty);
        for way in WAYS {
            let results = Results::of(5);
            let memory = Memory::new(9);
            let requests = vec![
                memory.read(0, &[9], results.note(0)),
                memory.write(0, &[9], results.note(1)),
                Request::sync_data(Box::new(results.note(2))),
                Request::sync_all(Box::new(results.note(3))),
                Request::set_size(1, Box::new(results.note(4))),
            ];
            let jobs = requests
                .into_iter()
                .map(|request| Job::new(Arc::clone(&storage), request));
            let done = perform(&*engine, way, jobs.collect(), &results);
            let errors: Vec<_> = done.into_iter().map(Result::unwrap_err).collect();
            assert!(errors[0].to_string().contains("panicked"), "{name}");
            assert_eq!(errors[1].kind(), io::ErrorKind::StorageFull, "{name}");
            assert!(
                errors[2..]
                    .iter()
                    .all(|error| error.raw_os_error() == Some(libc::EIO)),
                "{name}"
            );
        }
    }
}

#[test]
fn what_the_storage_refuses_is_refused_by_every_engine() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("read only");
    std::fs::write(&path, content(5000)).unwrap();
    for direct in [Direct::Never, Direct::Auto] {
        let reader = FileBackend::open_for_reading(&path, direct).unwrap();
        let reader: Arc<dyn Backend> = Arc::new(reader);
        let writer: Arc<dyn Backend> = Arc::new(file(&content(5000), direct, dir.path()));
        for (name, engine) in engines() {
            for way in WAYS {
                let results = Results::of(6);
                let memory = Memory::new(4096);
                let of_reader = [
                    memory.write(0, &[4096], results.note(0)),
                    memory.write(0, &[], results.note(1)),
                    Request::sync_data(Box::new(results.note(2))),
                    Request::set_size(1, Box::new(results.note(3))),
                ];
                let too_large = i64::MAX as u64 - 4095;
                let of_writer = [
                    memory.write(too_large, &[4096], results.note(4)),
                    memory.write(u64::MAX, &[4096], results.note(5)),
                ];
                let jobs = of_reader
                    .into_iter()
                    .map(|request| Job::new(Arc::clone(&reader), request));
                let more = of_writer
                    .into_iter()
                    .map(|request| Job::new(Arc::clone(&writer), request));
                let done = perform(&*engine, way, jobs.chain(more).collect(), &results);
                let kinds: Vec<_> = done
                    .into_iter()
                    .map(|result| result.unwrap_err().kind())
                    .collect();
                assert_eq!(
                    kinds[..4],
                    [io::ErrorKind::Unsupported; 4],
                    "{name}, {way:?}"
                );
                assert_eq!(
                    kinds[4..],
                    [io::ErrorKind::FileTooLarge; 2],
                    "{name}, {way:?}"
                );
            }
            assert_eq!(reader.size().unwrap(), 5000);
            assert!(read_all(&*writer) == content(5000));
        }
    }
}

#[test]
fn a_storage_that_hangs_leaves_the_others_alone_and_completes_when_it_answers() {
    let dir = pagewell_testkit::scratch::dir();
    let other: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    let others = [other, Arc::new(MemoryBackend::new(content(4096)))];
    // The thread itself hangs with the baseline, so it is left out.
    for (name, engine) in engines().into_iter().skip(1) {
        let gate = Arc::new(Gate::new());
        let open = OpenAtEnd(&gate);
        let held = Arc::clone(&gate);
        let hanging: Arc<dyn Backend> = Arc::new(FaultBackend::new(
            MemoryBackend::new(content(4096)),
            move |_, _| {
                held.pass();
                Fault::None
            },
        ));
        let hung = Results::of(100);
        for nr in 0..100 {
            let request = Memory::new(4096).read(0, &[4096], hung.note(nr));
            engine.submit(Job::new(Arc::clone(&hanging), request));
        }
        gate.wait_for(1);
        for way in WAYS {
            let results = Results::of(50);
            let jobs = (0..50).map(|nr| {
                let request = Memory::new(4096).read(0, &[4096], results.note(nr));
                Job::new(Arc::clone(&others[nr % 2]), request)
            });
            let done = perform(&*engine, way, jobs.collect(), &results);
            assert!(
                done.into_iter().all(|result| result.unwrap() == 4096),
                "{name}"
            );
        }
        assert_eq!(hung.nr_done(), 0, "{name}");
        // To drop the engine neither waits nor loses anything.
        drop(engine);
        not_yet("the storage hangs", || hung.nr_done() != 0);
        drop(open);
        assert!(
            hung.all().into_iter().all(|result| result.unwrap() == 4096),
            "{name}"
        );
    }
}

/// Of the completion of a program, and of its backend's last reference, which is dropped before it.
#[test]
fn a_completion_that_waits_leaves_other_storages_alone() {
    let dir = pagewell_testkit::scratch::dir();
    let waiting: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    let other: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    // A thread that waits for its own request completes it too.
    for (name, engine) in engines().into_iter().skip(1) {
        let gate = Arc::new(Gate::new());
        let open = OpenAtEnd(&gate);
        let results = Results::of(2);
        let (held, note) = (Arc::clone(&gate), results.note(0));
        let request = Memory::new(4096).read(0, &[4096], move |result| {
            held.pass();
            note(result);
        });
        engine.submit(Job::new(Arc::clone(&waiting), request));
        gate.wait_for(1);
        let request = Memory::new(4096).read(0, &[4096], results.note(1));
        engine.submit(Job::new(Arc::clone(&other), request));
        until("the other is read", || results.nr_done() == 1);
        drop(open);
        assert!(
            results
                .all()
                .into_iter()
                .all(|result| result.unwrap() == 4096),
            "{name}"
        );
    }
}

#[test]
fn drop_leaves_a_ring_thread_that_is_blocked() {
    bounded("the drop of an engine", || {
        let dir = pagewell_testkit::scratch::dir();
        let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
        for (name, engine) in rings() {
            let gate = Arc::new(Gate::new());
            let open = OpenAtEnd(&gate);
            let results = Results::of(1);
            let (held, note) = (Arc::clone(&gate), results.note(0));
            let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
                held.pass();
                note(result);
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            gate.wait_for(1);
            drop(engine);
            assert_eq!(results.nr_done(), 0, "{name}");
            drop(open);
            assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
        }
    });
}

#[test]
fn ring_thread_may_drop_its_own_engine() {
    bounded("the drop of an engine", || {
        let dir = pagewell_testkit::scratch::dir();
        let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
        for (name, engine) in rings() {
            let gate = Arc::new(Gate::new());
            let open = OpenAtEnd(&gate);
            let results = Results::of(1);
            let (held, note, kept) = (Arc::clone(&gate), results.note(0), Arc::clone(&engine));
            let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
                held.pass();
                drop(kept);
                note(result);
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            gate.wait_for(1);
            drop(engine);
            drop(open);
            assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
        }
    });
}

/// Debug builds detect a waker that would be called by the ring's thread, on which all requests
/// depend. In a backend, which may use another cache, this does not count.
#[cfg(debug_assertions)]
#[test]
fn no_waker_is_called_by_the_ring_thread() {
    use pagewell_sync::ledger::{self, Resource};
    use pagewell_sync::parking::call_waker;

    let is_refused = || catch_unwind(|| call_waker(Waker::noop().clone())).is_err();
    assert!(!is_refused());
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    for (name, engine) in rings() {
        let results = Results::of(1);
        let note = results.note(0);
        let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
            let is_refused_in_backend = {
                let _in_backend = ledger::enter("a backend", &Resource::ALL);
                is_refused()
            };
            let is_right = is_refused() && !is_refused_in_backend;
            note(result.map(|nr| nr * usize::from(is_right)));
        });
        engine.submit(Job::new(Arc::clone(&storage), request));
        assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
    }
}

#[test]
fn the_storage_is_let_go_before_the_completion_is_called() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, engine) in engines() {
        for way in WAYS {
            for (kind, storage) in storages(&content(8192), dir.path()) {
                if kind == "deferred memory" {
                    continue; // It has to keep itself.
                }
                let results = Results::of(1);
                let (weak, note) = (Arc::downgrade(&storage), results.note(0));
                let request = Memory::new(4096).read(0, &[4096], move |result| {
                    assert_eq!(weak.strong_count(), 0);
                    note(result);
                });
                let done = perform(&*engine, way, vec![Job::new(storage, request)], &results);
                assert_eq!(done[0].as_ref().unwrap(), &4096, "{name}, {kind}");
            }
        }
    }
}

#[test]
fn a_request_that_is_dropped_fails_and_so_does_one_in_a_job() {
    let results = Results::of(2);
    drop(Memory::new(8).read(0, &[8], results.note(0)));
    let storage = Arc::new(MemoryBackend::new(Vec::new()));
    drop(Job::new(
        storage,
        Memory::new(8).read(0, &[8], results.note(1)),
    ));
    for result in results.all() {
        let error = result.unwrap_err();
        assert!(error.get_ref().unwrap().is::<GivenUp>());
    }
}

/// A read as a future: the completion wakes it, or finds nobody.
struct Reading {
    state: Arc<Mutex<Read>>,
}

#[derive(Default)]
struct Read {
    result: Option<io::Result<usize>>,
    waker: Option<Waker>,
}

impl Future for Reading {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock().unwrap();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn futures_are_woken_and_one_that_is_dropped_leaves_its_memory_until_the_storage_is_done_with_it() {
    for (name, engine) in engines().into_iter().skip(1) {
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        let slow = FaultBackend::new(MemoryBackend::new(content(64)), move |_, _| {
            held.pass();
            Fault::None
        });
        let storage: Arc<dyn Backend> = Arc::new(slow);
        let read = |memory: &Arc<Memory>| {
            let state = Arc::new(Mutex::new(Read::default()));
            let future = Reading {
                state: Arc::clone(&state),
            };
            let request = memory.read(0, &[64], move |result| {
                let mut state = state.lock().unwrap();
                state.result = Some(result);
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            future
        };
        let (kept, dropped) = (Memory::new(64), Memory::new(64));
        let mut future = pin!(read(&kept));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        let other = read(&dropped);
        let memory = Arc::downgrade(&dropped);
        drop((other, dropped));
        // Its owner has lost interest, and the storage may still write there.
        assert_eq!(memory.strong_count(), 1, "{name}");
        gate.open();
        let result = loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(result) => break result,
                Poll::Pending => thread::park(),
            }
        };
        assert_eq!(result.unwrap(), 64, "{name}");
        assert_eq!(kept.bytes(), content(64), "{name}");
        until("the memory is free", || memory.strong_count() == 0);
    }
}

#[test]
fn a_lane_that_is_dropped_waits_for_what_it_has() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, engine) in engines() {
        for (kind, storage) in storages(&content(4096 * 64), dir.path()) {
            for nr in [1, 2, 64, 500] {
                let results = Results::of(nr);
                let mut lane = engine.lane();
                for nr in 0..nr {
                    let request =
                        Memory::new(4096).read(nr as u64 % 64 * 4096, &[4096], results.note(nr));
                    lane.submit(Job::new(Arc::clone(&storage), request));
                    if nr % 100 == 50 {
                        lane.wait(0);
                    }
                }
                drop(lane);
                assert_eq!(results.nr_done(), nr, "{name}, {kind}");
            }
        }
    }
}

#[test]
fn signals_interrupt_nothing_for_good() {
    extern "C" fn nothing(_: libc::c_int) {}
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(1 << 20), Direct::Auto, dir.path()));
    // SAFETY: zeros are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: a handler that does nothing, and does not have calls repeated.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    for (name, engine) in engines() {
        let is_over = Arc::new(AtomicUsize::new(0));
        let over = Arc::clone(&is_over);
        // SAFETY: no arguments.
        let this = unsafe { libc::pthread_self() };
        let bomber = thread::spawn(move || {
            while over.load(Ordering::Relaxed) == 0 {
                // SAFETY: the thread lives until this one has ended.
                let _ = unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        for round in 0..60 {
            let results = Results::of(32);
            let jobs = (0..32).map(|nr| {
                let pos = (nr * 8 + round) as u64 % 256 * 4096;
                let request = Memory::new(4096).read(pos, &[4096], results.note(nr));
                Job::new(Arc::clone(&storage), request)
            });
            let done = perform(&*engine, WAYS[round % 4], jobs.collect(), &results);
            assert!(
                done.into_iter().all(|result| result.unwrap() == 4096),
                "{name}"
            );
        }
        is_over.store(1, Ordering::Relaxed);
        bounded("the end of the signals", move || bomber.join().unwrap());
    }
}

/// How often each thread of this process whose name is `name` has gone to sleep.
fn nr_sleeps(name: &str) -> Vec<(std::ffi::OsString, String)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == name {
            let status = read("status");
            let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
            all.push((task.file_name(), switches.collect::<Vec<_>>().join(", ")));
        }
    }
    all.sort();
    all
}

/// An idle ring that spins keeps a core busy; it was seen in others.
#[test]
#[ignore = "counts context switches, which a busy machine adds to; .ci/nightly"]
fn an_idle_ring_does_nothing() {
    // Other tests have threads of the same name.
    if !pagewell_testkit::alone("an_idle_ring_does_nothing") {
        return;
    }
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    for (name, engine) in rings() {
        let results = Results::of(64);
        for nr in 0..64 {
            let request = Memory::new(4096).read(0, &[4096], results.note(nr));
            engine.submit(Job::new(Arc::clone(&storage), request));
        }
        assert_eq!(results.all().len(), 64);
        // It may still be on its way to sleep.
        let mut before = nr_sleeps("pagewell-uring");
        until("the thread sleeps", || {
            thread::sleep(std::time::Duration::from_millis(20));
            let now = nr_sleeps("pagewell-uring");
            std::mem::replace(&mut before, now.clone()) == now
        });
        not_yet(name, || nr_sleeps("pagewell-uring") != before);
    }
}

/// The question was asked four times a transfer. A panic ended the thread of the ring; another answer submitted descriptor -1, or kept
/// a share of the file, so that a change of its size never ended.
#[test]
fn a_backend_that_panics_or_changes_its_answer_harms_no_request() {
    bounded("answers", || {
        let dir = pagewell_testkit::scratch::dir();
        let bytes = content(64 << 10);
        for (name, engine) in engines() {
            for (at, panics) in (0..8).flat_map(|at| [(at, false), (at, true)]) {
                let file: Arc<dyn Backend> = Arc::new(Fickle {
                    file: Arc::new(file(&bytes, Direct::Auto, dir.path())),
                    nr_asked: AtomicUsize::new(0),
                    at,
                    panics,
                });
                let what = format!("{name}: call {at}, panics: {panics}");
                for round in 0..4 {
                    let results = Results::of(2);
                    let (read, written) = (Memory::new(4096), Memory::with_bytes(&bytes[..4096]));
                    let requests = [
                        read.read(8192, &[4096], results.note(0)),
                        written.write(4096, &[4096], results.note(1)),
                    ];
                    let jobs = requests.map(|request| Job::new(Arc::clone(&file), request));
                    match round % 2 {
                        0 => engine.run(&mut jobs.into()),
                        _ => jobs.into_iter().for_each(|job| engine.submit(job)),
                    }
                    for result in results.all() {
                        assert_eq!(result.unwrap(), 4096, "{what}");
                    }
                    assert!(read.bytes() == bytes[8192..8192 + 4096], "{what}");
                }
                // It waits for all shares of the file.
                file.set_size(10_000).unwrap();
            }
        }
    });
}
