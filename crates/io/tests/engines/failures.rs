//! Backends and completions that fail, panic or hang.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_io::engine::{GivenUp, Job, RawFile, Request};
use pagewell_io::{Backend, Direct, FileBackend, FileId, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend, Operation};
use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded, not_yet, until};

use crate::backends::file;
use crate::results::{Results, WAYS, perform};
use crate::support::{Memory, content, engines};

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
