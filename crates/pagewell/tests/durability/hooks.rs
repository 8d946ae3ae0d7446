//! Hooks before pages are written: which log sequence numbers they are told, what a refusal does, and what they may not do.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use std::time::Duration;

use pagewell::refcount::RefScheme;
use pagewell::{ErrorKind, File, OpenOptions};
use pagewell_testkit::wait::{bounded_by, until};

use crate::storage::{manual, open_scripted, stored};
use crate::support::{self, PAGE, assert_all_free, cache};

support::for_both_schemes! {
    a_hook_is_told_the_highest_number_of_each_page
    a_page_that_is_refused_keeps_no_other_from_being_written
    a_hook_that_asks_for_its_own_file_gets_an_error
    the_last_handle_may_go_in_a_hook
}

fn a_hook_is_told_the_highest_number_of_each_page<S: RefScheme>() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let told = Arc::clone(&told);
        move |page, lsn| {
            told.lock().unwrap().push((page, lsn));
            Ok(())
        }
    };
    let cache = cache::<S>(64);
    let (file, _, _) = open_scripted(&cache, &[0; 100], &manual().before_write(hook));
    // Parts of two pages, and a number that is no higher.
    file.write_at_lsn(&[1; PAGE], 50, 7).unwrap();
    file.write_at_lsn(&[2], 0, 3).unwrap();
    let end = file.append_lsn(&[3; PAGE], 9).unwrap();
    assert_eq!(end, PAGE as u64 + 50);
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

/// One page of a batch was refused, and none of the batch was written. The others have no part in it.
fn a_page_that_is_refused_keeps_no_other_from_being_written<S: RefScheme>() {
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
        let cache = cache::<S>(64);
        let hook = hook.clone();
        let (file, backend, _) =
            open_scripted(&cache, &[0; 6 * PAGE], &manual().before_write(hook));
        *refused.lock().unwrap() = pages.iter().copied().collect();
        file.write_at(&[1; 6 * PAGE], 0).unwrap();
        let error = file.flush(0..u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
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

fn a_hook_that_asks_for_its_own_file_gets_an_error<S: RefScheme>() {
    let own: Arc<OnceLock<File<S>>> = Arc::default();
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
                file.set_len(0),
                file.discard(0..1),
                file.barrier(),
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
    let cache = cache::<S>(64);
    let (file, backend, _) = open_scripted(&cache, &[0; PAGE], &manual().before_write(hook));
    file.write_at(&[1; 10], 0).unwrap();
    assert!(own.set(file.clone()).is_ok());
    assert_eq!(file.flush(0..u64::MAX).unwrap(), 1);
    assert_eq!(stored(backend)[..10], [1; 10]);
    let mut buf = [0; 2];
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [9, 1]);
}

/// The hook's thread holds the file's writeback lock, so it cannot make the file durable; and what was written to a page
/// after it was given to the storage is not given any more by who called the hook.
fn the_last_handle_may_go_in_a_hook<S: RefScheme>() {
    bounded_by(Duration::from_secs(60), "the last handle", || {
        let last: Arc<Mutex<Option<File<S>>>> = Arc::default();
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
        let cache = cache::<S>(64);
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
