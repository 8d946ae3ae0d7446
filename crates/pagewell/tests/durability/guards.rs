//! Pages that are pinned to be changed: other threads wait for the guard, and its own gets an error where it would wait for itself.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pagewell::io::MemoryBackend;
use pagewell::space::{self, CacheSpaces as _, Sharing};
use pagewell::{DetachedPageGuardMut, Error, ErrorKind, File, Op, PageGuardMut};
use pagewell_testkit::wait::{bounded_by, not_yet, until};

use crate::storage::manual;
use crate::support::{PAGE, cache};

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// A file of four pages and a half, in a cache of its own.
fn open() -> File {
    let backend = MemoryBackend::writable(vec![7; 4 * PAGE + PAGE / 2]);
    let cache = cache(64);
    cache.open_backend_with(backend, "file", &manual()).unwrap()
}

#[track_caller]
fn is_deadlock<T>(result: Result<T, Error>, page: u64, op: Op) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Deadlock, op),
        "{error}"
    );
    assert!(
        error.to_string().contains(&format!("page {page}")),
        "{error}"
    );
    assert_eq!(error.kind().errno(), libc::EDEADLK);
}

#[test]
fn a_thread_does_not_wait_for_a_guard_of_its_own() {
    bounded_by(LONG, "calls with a guard in hand", || {
        let file = open();
        let other = file.clone();
        let mut last = file.pin_mut(4).unwrap();
        let mut first = file.pin_mut(1).unwrap();
        last[0] = 1;
        first[0] = 2;
        for page in [1, 4] {
            is_deadlock(other.pin_mut(page), page, Op::Pin);
            is_deadlock(other.write_at(&[9], page * PAGE as u64), page, Op::Write);
        }
        is_deadlock(other.append(&[9]), 4, Op::Write);
        is_deadlock(other.append(&[9; 3 * PAGE]), 4, Op::Write);
        is_deadlock(other.write_at(&[9; 10], 6 * PAGE as u64), 4, Op::Write);
        is_deadlock(other.set_size(6 * PAGE as u64), 4, Op::Resize);
        // A write of several pages is done as far as it can be.
        assert_eq!(other.write_at(&[3; 2 * PAGE], 0).unwrap(), PAGE);
        // What need not wait does not fail.
        assert_eq!(other.write_at(&[4], 2 * PAGE as u64).unwrap(), 1);
        other.sync_data().unwrap();
        assert_eq!(other.pin(1).unwrap()[0], 7);
        drop((last, first));

        let of_page = |page| file.pin(page).unwrap()[0];
        assert_eq!([0, 1, 2, 3, 4].map(of_page), [3, 2, 4, 7, 1]);
        assert_eq!(file.size(), (4 * PAGE + PAGE / 2) as u64, "nothing grew");
        other.append(&[9]).unwrap();
        other.pin_mut(1).unwrap()[0] = 8;
    });
}

#[test]
fn a_write_through_a_space_does_not_wait_for_a_guard_of_its_thread() {
    bounded_by(LONG, "a write through a space", || {
        let cache = cache(64);
        let backend = MemoryBackend::writable(vec![7; 2 * PAGE]);
        let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
        let space = cache.space().unwrap();
        let area = space
            .map_file(&file, 0..2 * PAGE as u64, Sharing::Shared)
            .unwrap();
        let mut guard = file.pin_mut(1).unwrap();
        guard[0] = 1;
        let error = space.write(area.start + PAGE as u64, &[9]).unwrap_err();
        assert_eq!(error.kind(), space::ErrorKind::File(ErrorKind::Deadlock));
        space.write(area.start, &[2]).unwrap();
        drop(guard);
        space.write(area.start + PAGE as u64 + 1, &[3]).unwrap();
        assert_eq!(file.pin(1).unwrap()[..3], [1, 3, 7]);
    });
}

/// The page that a guard has locked is gone, and another one is in its place: the guard locks nothing any more.
#[test]
fn a_guard_that_was_discarded_is_in_nobodys_way() {
    bounded_by(LONG, "a write to a page that was discarded", || {
        let file = open();
        let guard = file.pin_mut(1).unwrap();
        file.discard(0..u64::MAX).unwrap();
        file.write_at(&[3], PAGE as u64).unwrap();
        let second = file.pin_mut(1).unwrap();
        is_deadlock(file.pin_mut(1), 1, Op::Pin);
        drop(guard);
        is_deadlock(file.pin_mut(1), 1, Op::Pin);
        drop(second);
        assert_eq!(file.pin(1).unwrap()[..2], [3, 7]);
    });
}

#[test]
fn another_thread_waits_for_a_guard() {
    bounded_by(LONG, "a thread that waits for a guard", || {
        let file = open();
        type Call = fn(&File) -> Result<(), Error>;
        let waits: [Call; 4] = [
            |file| file.write_at(&[1], 4 * PAGE as u64).map(drop),
            |file| file.pin_mut(4).map(drop),
            |file| file.append(&[1]).map(drop),
            |file| file.set_size(20 * PAGE as u64),
        ];
        for (nr, wait) in waits.into_iter().enumerate() {
            let mut guard = file.pin_mut(4).unwrap();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| wait(&file));
                not_yet("the waiter is done", || waiter.is_finished());
                guard[1] = nr as u8;
                drop(guard);
                waiter.join().unwrap().unwrap();
            });
            assert_eq!(file.pin(4).unwrap()[1], nr as u8);
        }
    });
}

#[test]
fn a_try_does_not_wait_for_a_guard() {
    bounded_by(LONG, "a try", || {
        let file = open();
        let guard = file.pin_mut(1).unwrap();
        let is_locked = |page| {
            let error = file.try_pin_mut(page).map(drop).unwrap_err();
            assert_eq!((error.kind(), error.op()), (ErrorKind::Locked, Op::Pin));
            assert!(error.to_string().contains("page 1"), "{error}");
        };
        is_locked(1);
        thread::scope(|scope| {
            scope.spawn(|| is_locked(1)).join().unwrap();
        });
        file.try_pin_mut(2).unwrap()[0] = 1;
        drop(guard);
        file.try_pin_mut(1).unwrap()[0] = 2;
        assert_eq!([1, 2].map(|page| file.pin(page).unwrap()[0]), [2, 1]);

        assert_eq!(
            file.try_pin_mut(9).map(drop).unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
    });
}

fn is_send<T: Send>() {}

fn is_sync<T: Sync>() {}

#[test]
fn a_detached_guard_is_of_no_thread() {
    is_send::<DetachedPageGuardMut<'_>>();
    is_sync::<PageGuardMut<'_>>();
    bounded_by(LONG, "a guard that is sent", || {
        let file = open();
        let mut guard = file.pin_mut(1).unwrap().detach();
        guard[0] = 1;
        guard.set_lsn(5);
        let refused = file.try_pin_mut(1).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked);
        thread::scope(|scope| {
            let file = &file;
            let there = scope.spawn(move || {
                let mut guard = guard.attach();
                // It is this thread's now.
                is_deadlock(file.write_at(&[9], PAGE as u64), 1, Op::Write);
                guard[1] = 2;
                let guard = guard.detach();
                until("the other thread waits", || file.pin(0).unwrap()[0] == 8);
                not_yet("it got the page", || file.pin(1).unwrap()[0] != 7);
                drop(guard);
            });
            // Not this thread's any more: it waits.
            file.write_at(&[8], 0).unwrap();
            file.write_at(&[3], PAGE as u64 + 2).unwrap();
            there.join().unwrap();
        });
        assert_eq!(file.pin(1).unwrap()[..4], [1, 2, 3, 7]);
        file.try_pin_mut(1).unwrap().cancel();
    });
}

/// A thread that made the file longer waited for a page of another thread with the lock of the size in its hand. The other one made
/// the file longer before it dropped its guard, and both waited for ever.
#[test]
fn who_makes_the_file_longer_waits_for_a_guard_without_a_lock() {
    bounded_by(LONG, "two threads that make a file longer", || {
        let file = Arc::new(open());
        let mut guard = file.pin_mut(3).unwrap();
        let growing = {
            let file = Arc::clone(&file);
            thread::spawn(move || file.write_at(&[1; 4 * PAGE], 3 * PAGE as u64))
        };
        not_yet("the page is written", || growing.is_finished());
        let end = file.size();
        assert_eq!(file.append(&[2; 10]).unwrap(), end..end + 10);
        file.set_size(end + 20).unwrap();
        guard[0] = 9;
        drop(guard);
        assert_eq!(growing.join().unwrap().unwrap(), 4 * PAGE);
        let mut bytes = vec![0; 5 * PAGE];
        assert_eq!(file.read_at(&mut bytes, 3 * PAGE as u64).unwrap(), 4 * PAGE);
        assert_eq!(bytes[..4 * PAGE], [1; 4 * PAGE]);
    });
}
