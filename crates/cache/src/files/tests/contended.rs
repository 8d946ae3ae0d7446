//! Behaviour of a thread that finds a slot claimed.

#[cfg(debug_assertions)]
use std::panic::catch_unwind;
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::task::Waker;

use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_io::MemoryBackend;
#[cfg(debug_assertions)]
use pagewell_sync::parking::call_waker;
use pagewell_sync::thread::Backoff;
use pagewell_testkit::wait::bounded;

use crate::base::page::PageSize;
use crate::dirty::options::Access;
#[cfg(debug_assertions)]
use crate::dirty::order::InOrder;
use crate::files::opened::Opened;
use crate::files::setup::files_of;
use crate::index::file_index::WATCHES;
use crate::mapping::record::How;
use crate::read::lookup::Lookup;

fn file_with_a_page() -> Opened<LockBit> {
    let files = files_of::<LockBit>(FramePool::new(&PoolConfig::new(256)).unwrap());
    let storage = Arc::new(MemoryBackend::new(vec![0; FRAME_BYTES]));
    let page_size = PageSize::SMALLEST;
    let opened = Opened::of_backend(
        &files,
        storage,
        "file".into(),
        page_size,
        How::of(Access::Read),
    );
    let (file, _) = opened.unwrap();
    drop(Lookup(&*file).get(0, || 1).unwrap());
    file
}

/// Debug builds detect code of the program that would run in a thread that holds a claim, a
/// reservation or a lock of a file.
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
    let order = InOrder::before_lock(&*file);
    assert!(is_refused());
    drop(order);
    assert!(!is_refused());
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
