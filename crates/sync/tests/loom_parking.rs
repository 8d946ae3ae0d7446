//! Models of the races of [`WaitTable`]: no waiter sleeps, and none stays registered, once the word
//! has changed and the wake-up is over. All words share one filter bit.
//!
//! `cd models && cargo test --profile loom -p pagewell-sync --test loom_parking`
//!
//! What breaks them is in `verify/mutants` (`wait-*`, `waker-*`, `wake-*`).

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

/// Starts a thread that changes the word and wakes its waiters.
fn change(both: &Arc<(WaitTable, AtomicU64)>) -> thread::JoinHandle<()> {
    let both = Arc::clone(both);
    thread::spawn(move || {
        both.1.store(1, Ordering::Release);
        both.0.wake(&both.1);
    })
}

/// A word, a table, and a thread that changes the word and wakes its waiters.
fn changed() -> (Arc<(WaitTable, AtomicU64)>, thread::JoinHandle<()>) {
    let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
    let waker = change(&both);
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

/// A task that takes its waker out while it may be called: it is called or not, and nothing is
/// left. A second task that waits for the word is woken.
#[test]
fn loom_take_out_vs_wake() {
    loom::model(|| {
        let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
        let counts = [(); 2].map(|()| Arc::new(Count::default()));
        let [left, stays] = counts.each_ref().map(|count| {
            let waker = Waker::from(Arc::clone(count));
            both.0.leave_waker(&both.1, &waker, is_old).unwrap()
        });
        drop(stays);
        let other = change(&both);
        left.take_out(&both.0);
        other.join().unwrap();
        let [nr, nr_of_other] = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert!(nr <= 1);
        assert_eq!(nr_of_other, 1);
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// A thread that is woken by a change that does not end its wait waits for the next change.
#[test]
fn loom_wait_vs_two_wakes() {
    loom::model(|| {
        let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
        let other = thread::spawn({
            let both = Arc::clone(&both);
            move || {
                for value in 1..=2 {
                    both.1.store(value, Ordering::Release);
                    both.0.wake(&both.1);
                }
            }
        });
        both.0
            .wait_while(&both.1, |word| word.load(Ordering::Acquire) != 2);
        assert_eq!(both.1.load(Ordering::Relaxed), 2);
        other.join().unwrap();
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// A registration that the task abandons: the wake-up removes the waker and calls it.
#[test]
fn loom_abandoned_waker_vs_wake() {
    loom::model(|| {
        let (both, other) = changed();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let left = both.0.leave_waker(&both.1, &waker, is_old);
        let is_left = left.is_some();
        drop(left);
        other.join().unwrap();
        assert_eq!(count.0.load(Ordering::Relaxed), usize::from(is_left));
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// A wake-up calls no waker of another word with the same bit. A task that takes its waker for the
/// other word out, or that need not wait for it, clears no bit that the word's waiter needs.
#[test]
fn loom_wake_of_other_word() {
    loom::model(|| {
        let (both, other) = changed();
        let other_word = AtomicU64::new(0);
        let [count, count_of_other] = [(); 2].map(|()| Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count_of_other));
        let left_for_other = both.0.leave_waker(&other_word, &waker, is_old).unwrap();
        let waker = Waker::from(Arc::clone(&count));
        let left = both.0.leave_waker(&both.1, &waker, is_old);
        left_for_other.take_out(&both.0);
        assert!(
            both.0
                .leave_waker(&other_word, Waker::noop(), |_| false)
                .is_none()
        );
        other.join().unwrap();
        let nr = count.0.load(Ordering::Relaxed);
        assert_eq!(nr, usize::from(left.is_some()));
        assert_eq!(count_of_other.0.load(Ordering::Relaxed), 0);
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// A thread that waits is woken although a waiter of another word with the same bit is cancelled.
#[test]
fn loom_wait_vs_wake_of_other_word() {
    loom::model(|| {
        let (both, other) = changed();
        let waiter = thread::spawn({
            let both = Arc::clone(&both);
            move || both.0.wait_while(&both.1, is_old)
        });
        let other_word = AtomicU64::new(0);
        let waker = Waker::noop();
        let left = both.0.leave_waker(&other_word, waker, is_old).unwrap();
        left.take_out(&both.0);
        waiter.join().unwrap();
        other.join().unwrap();
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// A wake-up of a word leaves the bit to a waiter of another word, whose change comes next.
#[test]
fn loom_wake_vs_wake_of_other_word() {
    loom::model(|| {
        let table = WaitTable::new();
        let words = [(); 2].map(|()| AtomicU64::new(0));
        let all = Arc::new((table, words));
        let changer = thread::spawn({
            let all = Arc::clone(&all);
            move || {
                for word in &all.1 {
                    word.store(1, Ordering::Release);
                    all.0.wake(word);
                }
            }
        });
        let counts = [(); 2].map(|()| Arc::new(Count::default()));
        let left = [1, 0].map(|nr| {
            let waker = Waker::from(Arc::clone(&counts[nr]));
            all.0.leave_waker(&all.1[nr], &waker, is_old)
        });
        changer.join().unwrap();
        for (left, count) in left.iter().zip(counts.iter().rev()) {
            assert_eq!(count.0.load(Ordering::Relaxed), usize::from(left.is_some()));
        }
        assert_eq!(all.0.nr_waiters_and_bits(), (0, 0));
    });
}

/// Two threads and a task that wait for one word are all woken.
#[test]
fn loom_waits_of_one_word_vs_wake() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(|| {
        let both = Arc::new((WaitTable::new(), AtomicU64::new(0)));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let left = both.0.leave_waker(&both.1, &waker, is_old).unwrap();
        drop(left);
        let waiter = thread::spawn({
            let both = Arc::clone(&both);
            move || both.0.wait_while(&both.1, is_old)
        });
        let changer = change(&both);
        both.0.wait_while(&both.1, is_old);
        waiter.join().unwrap();
        changer.join().unwrap();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(both.0.nr_waiters_and_bits(), (0, 0));
    });
}
