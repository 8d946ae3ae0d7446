//! Models of the races of [`WaitTable`]: nobody sleeps, and no waker lies there, once the word has changed and the wake-up is over.
//!
//! `cd models && cargo test --profile loom -p pagewell-sync --test loom_parking`
//!
//! What breaks them is in `verify/mutants` (`waker-*`, `wake-without-fence`).

#![cfg(loom)]

// Not loom's: who shares the values is no part of the model.
use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::thread;
use pagewell_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use pagewell_sync::parking::WaitTable;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A word, a table, and a thread that changes the word and wakes who waits for that.
fn changed() -> (Arc<(WaitTable, AtomicU64)>, thread::JoinHandle<()>) {
    let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
    let waker = thread::spawn({
        let both = Arc::clone(&both);
        move || {
            both.1.store(1, Ordering::Release);
            both.0.wake(&both.1);
        }
    });
    (both, waker)
}

fn is_old(word: &AtomicU64) -> bool {
    word.load(Ordering::Acquire) == 0
}

/// A thread that waits is woken: a model in which it slept on would be a deadlock.
#[test]
fn loom_wait_vs_wake() {
    loom::model(|| {
        let (both, other) = changed();
        both.0.wait_while(&both.1, is_old);
        other.join().unwrap();
    });
}

/// A task that leaves its waker sees the change, or the waker is called.
#[test]
fn loom_leave_waker_vs_wake() {
    loom::model(|| {
        let (both, other) = changed();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let left = both.0.leave_waker(&both.1, &waker, is_old);
        other.join().unwrap();
        let nr = count.0.load(Ordering::Relaxed);
        assert_eq!(nr, usize::from(left.is_some()));
        if let Some(left) = left {
            left.take_out(&both.0);
        }
    });
}

/// A task that takes its waker out while it may be called: it is called or not, and nothing is left.
#[test]
fn loom_take_out_vs_wake() {
    loom::model(|| {
        let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let left = both.0.leave_waker(&both.1, &waker, is_old).unwrap();
        let other = thread::spawn({
            let both = Arc::clone(&both);
            move || {
                both.1.store(1, Ordering::Release);
                both.0.wake(&both.1);
            }
        });
        left.take_out(&both.0);
        other.join().unwrap();
        assert!(count.0.load(Ordering::Relaxed) <= 1);
        assert_eq!(both.0.nr_waiters(), 0);
    });
}
