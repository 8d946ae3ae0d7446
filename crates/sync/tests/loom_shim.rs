//! Substitutes in models for time, threads and condition variables of the system
//! (`crates/sync/src/modelled.rs`).
//!
//! `cd models && cargo test --profile loom -p pagewell-sync --test loom_shim`

#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loom::thread;
use pagewell_sync::time::Instant;
use pagewell_sync::{Condvar, Mutex, RecordMutex, lock, lock_record, try_lock};

/// A time limit that would be over at once.
const NO_TIME: Duration = Duration::ZERO;

#[derive(Default)]
struct Shared {
    nr: Mutex<u32>,
    changed: Condvar,
}

/// Starts a thread that adds 1 twice, and notifies after each addition or after none.
fn adds_twice(shared: &Arc<Shared>, notifies: bool) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        for _ in 0..2 {
            *lock(&shared.nr) += 1;
            if notifies {
                shared.changed.notify_all();
            }
        }
    })
}

fn wait_for_two(notifies: bool) {
    loom::model(move || {
        let shared = Arc::<Shared>::default();
        let other = adds_twice(&shared, notifies);
        let waited = shared
            .changed
            .wait_timeout_while(lock(&shared.nr), NO_TIME, |nr| *nr < 2);
        let (nr, _) = waited.unwrap();
        assert_eq!(*nr, 2);
        drop(nr);
        other.join().unwrap();
    });
}

#[test]
fn loom_wait_with_a_time_limit_ends_by_a_notification() {
    wait_for_two(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_wait_with_a_time_limit_does_not_end_by_time() {
    wait_for_two(false);
}

#[test]
fn loom_wait_of_any_length_returns_after_one_notification() {
    loom::model(|| {
        let shared = Arc::<Shared>::default();
        let mut nr = lock(&shared.nr);
        let other = adds_twice(&shared, true);
        (nr, _) = shared.changed.wait_timeout(nr, NO_TIME).unwrap();
        assert!(*nr != 0);
        drop(nr);
        other.join().unwrap();
    });
}

#[test]
fn loom_try_lock_fails_while_another_thread_holds_the_lock() {
    let seen = Arc::new([const { AtomicBool::new(false) }; 2]);
    let outcomes = Arc::clone(&seen);
    loom::model(move || {
        let shared = Arc::<Shared>::default();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let locked = try_lock(&shared.nr);
                locked.is_some_and(|mut nr| {
                    *nr += 1;
                    true
                })
            })
        };
        let mut nr = lock(&shared.nr);
        // The other thread may run now.
        thread::yield_now();
        *nr += 1;
        drop(nr);
        let has_locked = other.join().unwrap();
        assert_eq!(*lock(&shared.nr), 1 + u32::from(has_locked));
        outcomes[usize::from(has_locked)].store(true, Ordering::Relaxed);
    });
    assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed)));
}

#[test]
fn loom_time_stands_still_and_no_thread_starts() {
    loom::model(|| {
        let began = Instant::now();
        let over = began + Duration::from_secs(1);
        pagewell_sync::thread::sleep(Duration::from_secs(10));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(Instant::now() < over && Instant::now() == began);
        let started = pagewell_sync::thread::spawn_named("never", || unreachable!());
        assert!(started.is_err());
        let record = RecordMutex::new(1);
        *lock_record(&record) += 1;
        assert_eq!(*lock_record(&record), 2);
    });
}
