//! Behaviour of a thread that finds a slot claimed.

#[cfg(debug_assertions)]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
#[cfg(debug_assertions)]
use std::task::Waker;
use std::thread;
use std::time::Duration;

use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend, Operation};
#[cfg(debug_assertions)]
use pagewell_sync::ledger;
#[cfg(debug_assertions)]
use pagewell_sync::parking::{call_waker, call_waker_unchecked};
use pagewell_sync::thread::Backoff;
use pagewell_testkit::wait::bounded;

use crate::base::error::ErrorKind;
#[cfg(debug_assertions)]
use crate::base::page_hooks::call_page_hook;
#[cfg(debug_assertions)]
use crate::dirty::hook::{InHook, ThreadMark};
use crate::dirty::writes::{Access, WriteOptions};
use crate::files::opened::Opened;
use crate::files::serve::files_of;
use crate::index::file_index::WATCHES;
use crate::read::lookup::Lookup;
use crate::write::growth::Grower;

fn file_with_a_page() -> Opened {
    let files = files_of(FramePool::new(&PoolConfig::new(256)).unwrap());
    let storage = MemoryBackend::new(vec![0; FRAME_BYTES]);
    let file = Opened::simple(&files, storage, Access::Read);
    drop(Lookup(&file).get(0, || 1).unwrap());
    file
}

/// Debug builds detect code of the program that would run with a claim, reservation or file lock.
#[cfg(debug_assertions)]
#[test]
fn a_waker_is_not_called_by_a_thread_that_others_wait_for() {
    fn is_refused() -> bool {
        catch_unwind(|| call_waker(Waker::noop().clone())).is_err()
    }
    let file = file_with_a_page();
    assert!(!is_refused());
    let claim = file.claim_present(0).unwrap();
    assert!(is_refused());
    drop(claim);
    let permit = file.supply().in_flight.permit(file.in_flight(), 1);
    assert!(is_refused());
    drop(permit);
    let record = ledger::before_lock_of(&*file);
    assert!(is_refused());
    drop(record);
    assert!(!is_refused());
}

/// As above, for a writeback callback, which may run with locks of files, and for the drop of a
/// file. Codecs and backends may run anywhere, with any locks held.
#[cfg(debug_assertions)]
#[test]
fn code_of_the_program_runs_with_what_locking_permits() {
    fn enter_callback() {
        drop(InHook::enter(&ThreadMark::default()));
    }
    let file = file_with_a_page();
    let order = ledger::before_lock_of(&*file);
    enter_callback();
    drop(order);
    let claim = file.claim_present(0).unwrap();
    catch_unwind(enter_callback).expect_err("a callback with a claim");
    let call_waker = || call_waker(Waker::noop().clone());
    call_page_hook(|| {
        call_waker();
        Ok(())
    })
    .expect("a codec with a claim");
    file.call_backend(|_| call_waker());
    call_waker_unchecked(Waker::noop().clone());
    let other = file_with_a_page();
    let drop_other = AssertUnwindSafe(|| drop(other));
    catch_unwind(drop_other).expect_err("the drop of a file with a claim");
    drop(claim);
    enter_callback();
}

/// Regression test: two writers of one page slept, and woke each other, for nearly every write.
#[test]
fn who_meets_a_claim_looks_a_few_times_before_it_sleeps() {
    bounded("looking a few times", || {
        let file = file_with_a_page();
        let claim = file.claim_present(0).unwrap();
        let mut backoff = Backoff::new();
        for _ in 0..WATCHES {
            // A thread that sleeps here is never woken.
            file.wait_for_change(0, &mut backoff);
        }
        drop(claim);
    });
}

/// The pages of the append count toward the file's quota until they are removed.
#[test]
fn failed_append_notifies_throttled_writers() {
    bounded("a notification", || {
        let files = files_of(FramePool::new(&PoolConfig::new(256)).unwrap());
        let backend = MemoryBackend::writable(vec![0; FRAME_BYTES / 2]);
        let backend = FaultBackend::with_script(backend, |operation| match operation {
            Operation::Read { .. } => Fault::Fail(std::io::ErrorKind::Other.into()),
            _ => Fault::None,
        });
        let file = Opened::simple(&files, backend, Access::Write(WriteOptions::default()));
        let waiter = file.shared.pressure.changed.waiter();
        let (send, began) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut nr_looks = 0;
                waiter.wait(|| {
                    nr_looks += 1;
                    send.send(()).unwrap();
                    // Longer than the bound of the test.
                    (nr_looks == 1).then_some(Duration::from_secs(100_000))
                });
            });
            began.recv().unwrap();
            // The page with the end of the file is written last. It must be read before.
            let appended = Grower(&file).append_bytes(&[1; 2 * FRAME_BYTES], 0);
            assert_eq!(appended.unwrap_err().kind(), ErrorKind::Io);
        });
        assert_eq!(file.writes_if_any().unwrap().share.nr(), 0);
    });
}
