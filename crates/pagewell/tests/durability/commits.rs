//! Syncs that threads share: each has what its caller wrote, and all that wait for one are told of its failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pagewell::io::{Backend, Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::{Cache, ErrorKind, File};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded_by, until};

use crate::storage::{EIO, errno, manual, open_scripted, stored};
use crate::support::{PAGE, cache};

/// A file whose first sync waits in the storage until `gate` is open; `then` is asked about the later ones.
fn late(
    cache: &Cache,
    gate: &Arc<Gate>,
    then: impl Fn() -> Fault + Send + Sync + 'static,
) -> (File, Arc<FaultBackend<MemoryBackend>>) {
    let (file, backend, script) = open_scripted(cache, &[0; 8 * PAGE], &manual());
    let gate = Arc::clone(gate);
    let is_first = AtomicBool::new(true);
    script.set(move |operation| match operation {
        Operation::SyncData if is_first.swap(false, Ordering::Relaxed) => {
            gate.pass();
            Fault::None
        }
        Operation::SyncData => then(),
        _ => Fault::None,
    });
    (file, backend)
}

fn write(file: &File, page: usize, byte: u8) {
    let nr = file.write_at(&[byte; PAGE], (page * PAGE) as u64);
    assert_eq!(nr.unwrap(), PAGE);
}

/// What was written while a sync was under way was not in it. A thread that followed that sync would be told that its bytes are
/// durable, and they would not even be given to the storage.
#[test]
fn a_thread_that_comes_during_a_sync_gets_one_that_begins_later() {
    bounded_by(Duration::from_secs(60), "commits", || {
        let cache = cache(64);
        let gate = Arc::new(Gate::new());
        let (file, backend) = late(&cache, &gate, || Fault::None);
        let nr_written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            write(&file, 0, 1);
            let first = scope.spawn(|| file.sync_data());
            until("the storage syncs", || gate.nr_arrived() == 1);
            let later: Vec<_> = (1..4)
                .map(|page| {
                    let (file, backend, nr_written) = (&file, &backend, &nr_written);
                    scope.spawn(move || {
                        write(file, page, 2);
                        nr_written.fetch_add(1, Ordering::Relaxed);
                        file.sync_data().unwrap();
                        assert_eq!(
                            stored(Arc::clone(backend))[page * PAGE..][..PAGE],
                            [2; PAGE]
                        );
                    })
                })
                .collect();
            until("the others write", || {
                nr_written.load(Ordering::Relaxed) == 3
            });
            assert_eq!(backend.nr_sync_datas(), 1);
            gate.open();
            first.join().unwrap().unwrap();
            later.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert!((2..=4).contains(&backend.nr_sync_datas()));
    });
}

/// All threads use one handle: that it has told one of them of a failure must not keep it from the others.
#[test]
fn all_that_wait_for_a_sync_are_told_that_it_failed() {
    bounded_by(Duration::from_secs(60), "commits", || {
        let cache = cache(64);
        let gate = Arc::new(Gate::new());
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let (file, backend) = late(&cache, &gate, move || {
            if broken.load(Ordering::Relaxed) {
                Fault::Fail(errno(EIO))
            } else {
                Fault::None
            }
        });
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let first = scope.spawn(|| file.sync_data());
            until("the storage syncs", || gate.nr_arrived() == 1);
            let later: Vec<_> = (1..8)
                .map(|page| {
                    write(&file, page, 2);
                    scope.spawn(|| file.sync_data().unwrap_err())
                })
                .collect();
            gate.open();
            // It has waited for its own alone. (The handle may tell it of a failure of the others'.)
            drop(first.join().unwrap());
            for thread in later {
                let error = thread.join().unwrap();
                assert_eq!(error.kind(), ErrorKind::Io);
                let source = std::error::Error::source(&error).unwrap();
                let source = source.downcast_ref::<std::io::Error>().unwrap();
                assert_eq!(source.raw_os_error(), Some(EIO));
            }
        });
        is_broken.store(false, Ordering::Relaxed);
        file.sync_data().unwrap();
        assert_eq!(stored(backend)[PAGE..], [2; 7 * PAGE]);
        file.close().map_err(|(_, error)| error).unwrap();
    });
}

/// A leader that unwinds must not leave its followers asleep, nor let them take their bytes for durable.
#[test]
fn all_that_wait_for_a_sync_are_told_that_it_panicked() {
    bounded_by(Duration::from_secs(60), "commits", || {
        let cache = cache(64);
        let gate = Arc::new(Gate::new());
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let (file, backend) = late(&cache, &gate, move || {
            assert!(!broken.load(Ordering::Relaxed), "made to panic");
            Fault::None
        });
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(&gate);
            let first = scope.spawn(|| file.sync_data());
            until("the storage syncs", || gate.nr_arrived() == 1);
            let later: Vec<_> = (1..8)
                .map(|page| {
                    write(&file, page, 2);
                    scope.spawn(|| catch_unwind(AssertUnwindSafe(|| file.sync_data())))
                })
                .collect();
            gate.open();
            drop(first.join().unwrap());
            let mut nr_panics = 0;
            for thread in later {
                match thread.join().unwrap() {
                    Ok(result) => assert_eq!(result.unwrap_err().kind(), ErrorKind::Io),
                    Err(_) => nr_panics += 1,
                }
            }
            assert!(nr_panics >= 1, "a leader gets the panic itself");
        });
        is_broken.store(false, Ordering::Relaxed);
        file.sync_data().unwrap();
        assert_eq!(stored(backend)[PAGE..], [2; 7 * PAGE]);
    });
}

/// Many threads, each with a page of its own: what the storage had when its last sync began is what a loss of power leaves.
#[test]
fn threads_that_commit_together_have_their_pages_durable() {
    const THREADS: usize = 8;
    let cache = cache(64);
    let (file, backend, script) = open_scripted(&cache, &[0; THREADS * PAGE], &manual());
    let durable = Arc::new(Mutex::new(vec![0; THREADS * PAGE]));
    let (bytes, kept) = (Arc::clone(&backend), Arc::clone(&durable));
    script.set(move |operation| {
        if matches!(operation, Operation::SyncData) {
            // Past the script, which is being asked.
            *kept.lock().unwrap() = stored(Inner(Arc::clone(&bytes)));
        }
        Fault::None
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (file, durable) = (&file, &durable);
            scope.spawn(move || {
                for byte in 1..=50 {
                    write(file, thread, byte);
                    file.sync_data().unwrap();
                    assert_eq!(durable.lock().unwrap()[thread * PAGE], byte);
                }
            });
        }
    });
    let nr = backend.nr_sync_datas();
    assert!((50..=50 * THREADS as u64).contains(&nr), "{nr}");
}

/// The storage behind a script.
#[derive(Debug)]
struct Inner(Arc<FaultBackend<MemoryBackend>>);

impl Backend for Inner {
    fn read_at(&self, bufs: &[pagewell::io::RacyBytes<'_>], pos: u64) -> std::io::Result<usize> {
        self.0.inner().read_at(bufs, pos)
    }

    fn size(&self) -> std::io::Result<u64> {
        self.0.inner().size()
    }

    fn id(&self) -> pagewell::io::FileId {
        self.0.inner().id()
    }
}
