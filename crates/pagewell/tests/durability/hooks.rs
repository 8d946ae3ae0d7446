//! Hooks before pages are written: which log sequence numbers they are told, what a refusal does,
//! and what they may not do.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use std::time::Duration;

use pagewell::io::{Fault, Operation};
use pagewell::{ErrorKind, File, Op, OpenOptions};
use pagewell_testkit::wait::{bounded_by, until};

use crate::storage::{ENOSPC, errno, manual, open_scripted, stored};
use crate::support::{PAGE, assert_all_free, cache};

#[test]
fn a_hook_is_told_the_highest_number_of_each_page() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let told = Arc::clone(&told);
        move |page, lsn| {
            told.lock().unwrap().push((page, lsn));
            Ok(())
        }
    };
    let cache = cache(64);
    let (file, _, _) = open_scripted(&cache, &[0; 100], &manual().before_write(hook));
    // Parts of two pages, and a number that is no higher.
    file.write_at_lsn(&[1; PAGE], 50, 7).unwrap();
    file.write_at_lsn(&[2], 0, 3).unwrap();
    let at = file.append_lsn(&[3; PAGE], 9).unwrap();
    assert_eq!(at, PAGE as u64 + 50..2 * PAGE as u64 + 50);
    file.write_at(&[4], 3 * PAGE as u64).unwrap();
    file.flush(0..u64::MAX).unwrap();
    let all = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!(all, [(0, 7), (1, 9), (2, 9), (3, 0)]);
    // A page that was replaced, in place and (while it is pinned) elsewhere.
    for is_pinned in [false, true] {
        let pin = is_pinned.then(|| file.pin(2).unwrap());
        let mut page = file.pin_mut(2).unwrap();
        page[0] = 5;
        page.set_lsn(20 + u64::from(is_pinned));
        drop(page);
        drop(pin);
        file.flush(0..u64::MAX).unwrap();
        let all = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(all, [(2, 20 + u64::from(is_pinned))]);
    }
}

/// One page of a batch was refused, and none of the batch was written. The others have no part in
/// it.
#[test]
fn a_page_that_is_refused_keeps_no_other_from_being_written() {
    let refused: Arc<Mutex<HashSet<u64>>> = Arc::default();
    let hook = {
        let refused = Arc::clone(&refused);
        move |page, _| {
            if refused.lock().unwrap().contains(&page) {
                return Err(io::Error::other(format!("not page {page}")));
            }
            Ok(())
        }
    };
    for pages in [&[2][..], &[0], &[5], &[0, 1, 3, 5]] {
        let cache = cache(64);
        let hook = hook.clone();
        let (file, backend, _) =
            open_scripted(&cache, &[0; 6 * PAGE], &manual().before_write(hook));
        *refused.lock().unwrap() = pages.iter().copied().collect();
        file.write_at(&[1; 6 * PAGE], 0).unwrap();
        let error = file.flush(0..u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, format!("not page {}", pages[0]));
        let bytes = stored(Arc::clone(&backend));
        for (page, bytes) in (0..).zip(bytes.chunks(PAGE)) {
            let expected = u8::from(!pages.contains(&page));
            assert_eq!(bytes, [expected; PAGE], "page {page} of {pages:?}");
        }
        refused.lock().unwrap().clear();
        assert_eq!(file.flush(0..u64::MAX).unwrap(), pages.len());
        assert_eq!(stored(backend), [1; 6 * PAGE]);
    }
}

/// A hook that refuses all pages as long as `is_refusing` is set. Its error is of the kind that a
/// call of the backend has if a signal interrupts it.
fn refusing(
    is_refusing: &Arc<AtomicBool>,
) -> impl Fn(u64, u64) -> io::Result<()> + Send + Sync + 'static {
    let is_refusing = Arc::clone(is_refusing);
    move |_, _| {
        if is_refusing.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "no log"));
        }
        Ok(())
    }
}

#[track_caller]
fn is_refusal<T>(result: Result<T, pagewell::Error>, op: Op) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Refused, op),
        "{error}"
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "no log");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Interrupted);
}

/// The refusal is told by who meets it, and once by each other handle: as a refusal, not as a
/// failure of the storage.
#[test]
fn a_refusal_is_told_as_what_it_is() {
    let is_refusing = Arc::new(AtomicBool::new(true));
    type Call = fn(&File) -> Result<(), pagewell::Error>;
    let calls: [(Call, Op); 3] = [
        (|file| file.flush(0..u64::MAX).map(drop), Op::Flush),
        (|file| file.sync_data(), Op::Sync),
        (|file| file.sync_all(), Op::Sync),
    ];
    for (call, op) in calls {
        let cache = cache(64);
        let hook = refusing(&is_refusing);
        let options = manual().before_write(hook);
        let (file, backend, _) = open_scripted(&cache, &[0; 3 * PAGE], &options);
        let other = file.clone();
        is_refusing.store(true, Ordering::Relaxed);
        file.write_at(&[1; PAGE], 0).unwrap();
        is_refusal(call(&file), op);
        assert_eq!(stored(Arc::clone(&backend)), [0; 3 * PAGE]);

        is_refusing.store(false, Ordering::Relaxed);
        is_refusal(other.sync_data(), Op::Sync);
        for file in [&file, &other, &file.clone()] {
            file.sync_data().unwrap();
        }
        assert_eq!(stored(backend)[..PAGE], [1; PAGE]);
    }
}

#[test]
fn a_refusal_in_the_background_is_told_as_what_it_is() {
    let is_refusing = Arc::new(AtomicBool::new(true));
    let nr_calls = Arc::new(AtomicU64::new(0));
    let hook = {
        let (hook, nr_calls) = (refusing(&is_refusing), Arc::clone(&nr_calls));
        move |page, lsn| {
            nr_calls.fetch_add(1, Ordering::Relaxed);
            hook(page, lsn)
        }
    };
    let cache = cache(64);
    let options = OpenOptions::new().write().before_write(hook);
    let (file, _, _) = open_scripted(&cache, &[0; PAGE], &options);
    let other = file.clone();
    file.write_at(&[1; PAGE], 0).unwrap();
    // The second call comes after the first one was noted.
    until("the hook has refused", || {
        nr_calls.load(Ordering::Relaxed) >= 2
    });
    is_refusing.store(false, Ordering::Relaxed);
    // A sync waits for the thread that is noting a refusal, and is told of it.
    until("the page is durable", || file.sync_data().is_ok());
    is_refusal(other.sync_all(), Op::Sync);
    other.sync_all().unwrap();
}

/// Two pages in one flush: the hook refuses one, and the storage fails at the other. Each is told,
/// as what it is.
#[test]
fn a_refusal_hides_no_failure_of_the_storage() {
    let is_refusing = Arc::new(AtomicBool::new(true));
    let hook = {
        let hook = refusing(&is_refusing);
        move |page, lsn| if page == 0 { hook(page, lsn) } else { Ok(()) }
    };
    let cache = cache(64);
    let (file, _, script) = open_scripted(&cache, &[0; 3 * PAGE], &manual().before_write(hook));
    let other = file.clone();
    file.write_at(&[1; PAGE], 0).unwrap();
    file.write_at(&[1; PAGE], 2 * PAGE as u64).unwrap();
    script.set(|operation| match operation {
        Operation::Write { .. } => Fault::Fail(errno(ENOSPC)),
        _ => Fault::None,
    });
    is_refusal(file.flush(0..u64::MAX), Op::Flush);
    is_refusing.store(false, Ordering::Relaxed);
    script.heal();
    let is_full = |error: pagewell::Error| {
        assert_eq!(error.kind(), ErrorKind::Io);
        // Every handle is told the system's own number.
        let source = std::error::Error::source(&error).unwrap();
        let source = source.downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(ENOSPC));
    };
    is_full(file.flush(0..u64::MAX).unwrap_err());
    is_full(other.flush(0..u64::MAX).unwrap_err());
    is_refusal(other.sync_data(), Op::Sync);
    for file in [file, other] {
        file.sync_data().unwrap();
    }
}

/// Two failures of different causes: the flush tells of one, the discard of the other.
#[test]
fn a_discard_that_tells_of_an_earlier_failure_drops_nothing() {
    let hook = {
        let hook = refusing(&Arc::new(AtomicBool::new(true)));
        move |page, lsn| if page == 0 { hook(page, lsn) } else { Ok(()) }
    };
    let cache = cache(64);
    let (file, _, script) = open_scripted(&cache, &[0; 3 * PAGE], &manual().before_write(hook));
    file.write_at(&[1; PAGE], 0).unwrap();
    file.write_at(&[2; PAGE], 2 * PAGE as u64).unwrap();
    script.set(|operation| match operation {
        Operation::Write { .. } => Fault::Fail(errno(ENOSPC)),
        _ => Fault::None,
    });
    is_refusal(file.flush(0..u64::MAX), Op::Flush);
    script.heal();
    let page = 0..PAGE as u64;
    let mut found = [0; PAGE];
    let error = file.discard(page.clone()).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Io, Op::Invalidate));
    file.read_at(&mut found, 0).unwrap();
    assert!(found == [1; PAGE], "dropped");
    // Both are told of now.
    file.discard(page).unwrap();
    file.read_at(&mut found, 0).unwrap();
    assert!(found == [0; PAGE], "still there");
    file.sync_data().unwrap();
}

#[test]
fn a_hook_that_asks_for_its_own_file_gets_an_error() {
    let own: Arc<OnceLock<File>> = Arc::default();
    let hook = {
        let own = Arc::clone(&own);
        move |_, _| {
            let Some(file) = own.get() else {
                return Ok(());
            };
            for result in [
                file.sync_data(),
                file.sync_all(),
                file.flush(0..u64::MAX).map(drop),
                file.set_size(0),
                file.discard(0..1),
                file.append(&[1]).map(drop),
                file.write_at(&[1], PAGE as u64).map(drop),
            ] {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Deadlock);
            }
            // What needs no lock is done, on a page that is on its way too.
            file.write_at(&[9], 0)?;
            Ok(())
        }
    };
    let cache = cache(64);
    let (file, backend, _) = open_scripted(&cache, &[0; PAGE], &manual().before_write(hook));
    file.write_at(&[1; 10], 0).unwrap();
    assert!(own.set(file.clone()).is_ok());
    assert_eq!(file.flush(0..u64::MAX).unwrap(), 1);
    assert_eq!(stored(backend)[..10], [1; 10]);
    let mut buf = [0; 2];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [9, 1]);
}

/// The hook's thread holds the file's writeback lock, so it cannot make the file durable; and what
/// was written to a page after it was given to the storage is not given any more by who called the
/// hook.
#[test]
fn the_last_handle_may_go_in_a_hook() {
    bounded_by(Duration::from_secs(60), "the last handle", || {
        let last: Arc<Mutex<Option<File>>> = Arc::default();
        let hook = {
            let last = Arc::clone(&last);
            move |page, _| {
                if page == 1
                    && let Some(file) = last.lock().unwrap().take()
                {
                    file.write_at(&[9; 10], 0).map_err(io::Error::other)?;
                }
                Ok(())
            }
        };
        let cache = cache(64);
        // Written back by the thread of the cache, so that no call of ours has a handle.
        let options = OpenOptions::new().write().before_write(hook);
        let (file, backend, _) = open_scripted(&cache, &[0; 2 * PAGE], &options);
        let mut slot = last.lock().unwrap();
        file.write_at(&[1; 2 * PAGE], 0).unwrap();
        *slot = Some(file);
        drop(slot);
        let mut expected = [1; 2 * PAGE];
        expected[..10].fill(9);
        until("all is stored", || stored(Arc::clone(&backend)) == expected);
        until("the file is closed", || Arc::strong_count(&backend) == 1);
        assert_all_free(&cache);
    });
}
