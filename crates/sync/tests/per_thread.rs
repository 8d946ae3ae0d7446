//! Behaviour of [`PerThread`], with the fences of this system and with those of one that has no `membarrier`.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::per_thread::{PerThread, Reach};

/// More than the tests of this file have threads at a time.
const NR: usize = 64;

fn with_both(test: impl Fn(Fences)) {
    for fences in [Fences::new(), Fences::symmetric()] {
        test(fences);
    }
}

#[test]
fn visitors_take_what_owners_put_there_and_lose_nothing() {
    with_both(|fences| {
        let values = PerThread::new(NR, fences, || 0_u64);
        let take = || values.with_all(|all, _| all.iter_mut().map(|v| std::mem::take(*v)).sum());
        let is_done = AtomicBool::new(false);
        let taken = thread::scope(|scope| {
            let owners: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            assert_eq!(values.with_mine(|value| *value += 1), Some(()));
                        }
                    })
                })
                .collect();
            let visitor = scope.spawn(|| {
                let mut taken: u64 = 0;
                while !is_done.load(Ordering::Relaxed) {
                    taken += take();
                    thread::yield_now();
                }
                taken
            });
            owners.into_iter().for_each(|owner| owner.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
            visitor.join().unwrap()
        });
        let rest: u64 = take();
        assert_eq!(taken + rest, 60_000);
    });
}

#[test]
fn a_thread_at_work_is_not_at_work_once_more() {
    with_both(|fences| {
        let values = PerThread::new(NR, fences, || 0);
        let inner = values.with_mine(|_| {
            let visit = values.with_all(|all, reach| (all.len(), reach));
            (values.with_mine(|_| ()), visit)
        });
        assert_eq!(inner, Some((None, (0, Reach::Own))));
        let inner = values.with_all(|_, _| {
            let visit = values.with_all(|all, reach| (all.len(), reach));
            (values.with_mine(|_| ()), visit)
        });
        assert_eq!(inner, (None, (0, Reach::Own)));
        assert_eq!(values.with_mine(|value| *value), Some(0));
    });
}

#[test]
fn work_that_unwinds_leaves_the_value_to_others() {
    with_both(|fences| {
        let values = PerThread::new(NR, fences, || 0);
        for is_visit in [false, true] {
            let work = std::panic::AssertUnwindSafe(|| {
                if is_visit {
                    values.with_all(|_, _| panic!("a visitor's"));
                } else {
                    values.with_mine(|_| panic!("an owner's"));
                }
            });
            assert!(std::panic::catch_unwind(work).is_err());
            assert_eq!(values.with_mine(|value| *value += 1), Some(()));
            assert_eq!(
                values.with_all(|all, reach| (!all.is_empty(), reach)),
                (true, Reach::All)
            );
        }
    });
}

#[test]
fn threads_beyond_the_last_value_have_none() {
    with_both(|fences| {
        let values = PerThread::new(0, fences, || 0);
        assert_eq!(values.with_mine(|_| ()), None);
        assert_eq!(
            values.with_all(|all, reach| (all.len(), reach)),
            (0, Reach::All)
        );
    });
}
