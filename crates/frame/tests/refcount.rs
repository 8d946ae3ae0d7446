//! Behaviour of the reference count, for each scheme: by the interface, beside a naive twin, at the
//! limits, under misuse, and with many threads. The races are explored in `loom_refcount`.

#![cfg(not(loom))]

use std::num::NonZeroU8;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use pagewell_frame::refcount::{
    AssumeOne, CasLoop, LockBit, Put, RefCount, RefScheme, Scheme, TryGet,
};
use pagewell_frame::refword::{LOCK, MAX_REFS, MAX_TRY, RESET_THRESHOLD};
use proptest::prelude::*;

/// Makes each generic function a test of each scheme.
macro_rules! for_each_scheme {
    ($($name:ident)*) => {
        mod lock_bit {
            $(
                #[test]
                fn $name() {
                    super::$name::<super::LockBit>();
                }
            )*
        }
        mod cas_loop {
            $(
                #[test]
                fn $name() {
                    super::$name::<super::CasLoop>();
                }
            )*
        }
        mod assume_one {
            $(
                #[test]
                fn $name() {
                    super::$name::<super::AssumeOne>();
                }
            )*
        }
    };
}

for_each_scheme! {
    a_page_lives_from_set_to_the_last_put
    several_references_are_taken_and_put_at_once
    a_freeze_needs_the_exact_count
    an_unfreeze_wipes_what_failed_tries_left
    a_free_in_one_step_needs_the_only_reference
    a_failed_try_leaves_nothing
    a_count_is_a_view_of_its_word
    one_reference_is_told_from_none_and_from_two
    tries_at_the_limit_are_refused_and_take_nothing
    a_put_of_nothing_panics_and_the_page_stays_locked
    a_put_of_too_much_panics_and_keeps_the_references_of_others
    a_get_of_nothing_panics_and_the_page_stays_locked
    counts_out_of_range_are_refused
    it_does_what_its_naive_twin_does
    threads_at_the_limit_lose_no_reference
    every_allocation_is_freed_once_by_whoever_puts_last
    what_users_write_is_there_for_who_frees
}

fn n(n: u8) -> NonZeroU8 {
    NonZeroU8::new(n).unwrap()
}

fn panics<T>(f: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn a_page_lives_from_set_to_the_last_put<S: RefScheme>() {
    let count = RefCount::<S>::new_locked();
    assert!(count.is_locked());
    assert_eq!(count.count(), 0);
    assert_eq!(count.try_get(), TryGet::Locked);

    for _ in 0..3 {
        count.set(1);
        assert!(!count.is_locked());
        assert_eq!(count.try_get(), TryGet::Taken);
        count.get();
        assert_eq!(count.count(), 3);
        assert_eq!(count.put(), Put::Kept);
        assert_eq!(count.put(), Put::Kept);
        assert_eq!(count.put(), Put::Last);
        assert!(count.is_locked(), "locked until the next allocation");
        assert_eq!(count.try_get(), TryGet::Locked);
    }
}

fn several_references_are_taken_and_put_at_once<S: RefScheme>() {
    let count = RefCount::<S>::new(7);
    assert!(count.try_add(n(255)).is_taken());
    assert_eq!(count.count(), 262);
    assert_eq!(count.sub_and_test(261), Put::Kept);
    assert!(count.try_add(n(9)).is_taken());
    assert!(count.sub_and_test(10).is_last());
    assert_eq!(count.try_add(n(255)), TryGet::Locked);

    let count = RefCount::<S>::new(MAX_REFS);
    assert_eq!(count.sub_and_test(MAX_REFS), Put::Last);
}

fn a_freeze_needs_the_exact_count<S: RefScheme>() {
    let count = RefCount::<S>::new(3);
    assert!(!count.freeze(2));
    assert!(!count.freeze(4));
    assert_eq!(count.count(), 3);
    assert!(count.freeze(3));
    assert!(count.is_locked());
    assert!(!count.freeze(3), "frozen already");
    assert_eq!(count.try_get(), TryGet::Locked);
    count.unfreeze(2);
    assert_eq!(count.count(), 2);
    assert!(count.try_get().is_taken());
}

fn an_unfreeze_wipes_what_failed_tries_left<S: RefScheme>() {
    let junk = if S::LOCKED == LOCK { 300 } else { 0 };
    let count = RefCount::<S>::from_raw(S::LOCKED + junk);
    assert!(count.is_locked());
    assert_eq!(count.count(), 0);
    count.unfreeze(5);
    assert_eq!(count.count(), 5);
}

fn a_free_in_one_step_needs_the_only_reference<S: RefScheme>() {
    let count = RefCount::<S>::new(2);
    assert!(!count.free_if_unique());
    assert_eq!(count.count(), 2);
    assert_eq!(count.put(), Put::Kept);
    assert!(count.free_if_unique());
    assert!(count.is_locked());
    assert!(!count.free_if_unique(), "free already");
}

fn a_failed_try_leaves_nothing<S: RefScheme>() {
    let count = RefCount::<S>::new_locked();
    for tried in 1..=u8::MAX {
        assert_eq!(count.try_add(n(tried)), TryGet::Locked);
        assert_eq!(count.raw(), S::LOCKED);
    }
}

fn one_reference_is_told_from_none_and_from_two<S: RefScheme>() {
    let count = RefCount::<S>::new_locked();
    assert!(!count.has_one_reference());
    assert_eq!(count.try_get(), TryGet::Locked);
    assert!(!count.has_one_reference());
    count.set(1);
    assert!(count.has_one_reference());
    count.get();
    assert!(!count.has_one_reference());
    assert!(!count.put().is_last() && count.has_one_reference());
    assert!(count.put().is_last() && !count.has_one_reference());
}

fn a_count_is_a_view_of_its_word<S: RefScheme>() {
    let word = AtomicU32::new(0);
    let count = RefCount::<S>::from_atomic(&word);
    count.set(1);
    assert!(RefCount::<S>::from_atomic(&word).try_get().is_taken());
    assert_eq!(word.load(Ordering::Relaxed), 2);
    assert_eq!(
        format!("{count:?}"),
        format!("RefCount {{ scheme: {:?}, count: 2 }}", S::NAME)
    );
    assert!(count.freeze(2));
    assert_eq!(word.load(Ordering::Relaxed), S::LOCKED);
    assert_eq!(
        format!("{count:?}"),
        format!("RefCount {{ scheme: {:?}, locked: true }}", S::NAME)
    );
}

fn tries_at_the_limit_are_refused_and_take_nothing<S: RefScheme>() {
    let count = RefCount::<S>::new(MAX_REFS - 10);
    assert_eq!(count.try_add(n(11)), TryGet::Saturated);
    assert_eq!(count.count(), MAX_REFS - 10);
    assert_eq!(count.try_add(n(10)), TryGet::Taken);
    assert_eq!(count.try_get(), TryGet::Saturated);
    assert_eq!(count.try_add(n(255)), TryGet::Saturated);
    assert_eq!(count.count(), MAX_REFS);
    assert_eq!(count.put(), Put::Kept);
    count.get();
    assert_eq!(count.count(), MAX_REFS);
}

fn a_put_of_nothing_panics_and_the_page_stays_locked<S: RefScheme>() {
    for wrong in [1, 2, 255, MAX_REFS - 1, MAX_REFS] {
        let count = RefCount::<S>::new_locked();
        assert!(panics(|| count.sub_and_test(wrong)));
        assert_eq!(count.raw(), S::LOCKED, "after a put of {wrong}");
        assert_eq!(count.try_get(), TryGet::Locked);
    }
}

fn a_put_of_too_much_panics_and_keeps_the_references_of_others<S: RefScheme>() {
    for (held, wrong) in [(1, 2), (3, 255), (200, 201), (5, MAX_REFS)] {
        let count = RefCount::<S>::new(held);
        assert!(panics(|| count.sub_and_test(wrong)));
        assert_eq!(count.count(), held);
        assert!(count.sub_and_test(held).is_last());
    }
}

fn a_get_of_nothing_panics_and_the_page_stays_locked<S: RefScheme>() {
    let count = RefCount::<S>::new_locked();
    assert!(panics(|| count.get()));
    assert_eq!(count.raw(), S::LOCKED);
    assert_eq!(count.try_get(), TryGet::Locked);
}

fn counts_out_of_range_are_refused<S: RefScheme>() {
    for wrong in [0, MAX_REFS + 1, LOCK, u32::MAX] {
        let count = RefCount::<S>::new(1);
        assert!(panics(|| RefCount::<S>::new(wrong)));
        assert!(panics(|| count.set(wrong)));
        assert!(panics(|| count.freeze(wrong)));
        assert!(panics(|| count.sub_and_test(wrong)));
        assert_eq!(count.count(), 1);
        assert!(count.freeze(1));
        assert!(panics(|| count.unfreeze(wrong)));
        assert!(count.is_locked());
    }
}

#[test]
#[cfg(debug_assertions)]
fn an_unfreeze_of_a_live_page_is_caught() {
    assert!(panics(|| RefCount::<LockBit>::new(1).unfreeze(1)));
    assert!(panics(|| RefCount::<CasLoop>::new(1).unfreeze(1)));
}

/// A zero that no put is about to lock is a bug; a put or a get that meets it leaks the page rather
/// than let it be freed twice.
#[test]
fn a_bare_zero_is_locked_by_the_misuse_that_meets_it() {
    let count = RefCount::<LockBit>::from_raw(0);
    assert!(panics(|| count.put()));
    assert_eq!(count.raw(), LOCK);

    let count = RefCount::<LockBit>::from_raw(0);
    assert!(panics(|| count.get()));
    assert_eq!(count.raw(), LOCK);
}

/// The word as a put of nothing leaves it until it is repaired: it looks locked, and an addition wraps
/// it to an unlocked zero.
#[test]
fn a_try_heals_an_underflowed_word() {
    for underflowed in [u32::MAX, u32::MAX - 3] {
        for tried in [1, 4, 255] {
            let count = RefCount::<LockBit>::from_raw(underflowed);
            assert_eq!(count.try_add(n(tried)), TryGet::Locked);
            assert_eq!(count.raw(), LOCK);
        }
    }
    // A put of one on a locked page, before it is repaired: unlocked, and far too many.
    let count = RefCount::<LockBit>::from_raw(LOCK - 1);
    assert!(!count.try_get().is_taken());
    assert_eq!(count.raw(), LOCK);
}

const BEYOND_THE_LIMIT: &str = "PAGEWELL_TEST_GET_BEYOND_THE_LIMIT";

/// Does nothing, except in the process that the test below starts.
#[test]
fn child_that_gets_beyond_the_limit() {
    match std::env::var(BEYOND_THE_LIMIT).as_deref() {
        Ok("lock-bit") => RefCount::<LockBit>::new(MAX_REFS).get(),
        Ok("cas-loop") => RefCount::<CasLoop>::new(MAX_REFS).get(),
        Ok("assume-one") => RefCount::<AssumeOne>::new(MAX_REFS).get(),
        _ => {}
    }
}

#[test]
#[cfg(unix)]
#[cfg_attr(miri, ignore = "starts a process")]
fn a_get_beyond_the_limit_aborts() {
    use std::os::unix::process::ExitStatusExt;

    for scheme in [LockBit::NAME, CasLoop::NAME, AssumeOne::NAME] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_gets_beyond_the_limit"])
            .env(BEYOND_THE_LIMIT, scheme)
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{scheme}");
    }
}

/// An operation of the test against the naive twin.
#[derive(Debug, Clone)]
enum Op {
    TryAdd(u8),
    Get,
    Put(u32),
    Freeze(u32),
    FreeIfUnique,
    Store(u32),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let amount = prop_oneof![1..4_u32, 1..300_u32, MAX_REFS - 300..=MAX_REFS];
    let op = prop_oneof![
        (1..=u8::MAX).prop_map(Op::TryAdd),
        (1..=3_u8).prop_map(Op::TryAdd),
        Just(Op::Get),
        amount.clone().prop_map(Op::Put),
        amount.clone().prop_map(Op::Freeze),
        Just(Op::FreeIfUnique),
        amount.prop_map(Op::Store),
    ];
    prop::collection::vec(op, 1..60)
}

/// What a count means, written without bits: `None` is locked.
struct Naive(Option<u32>);

fn it_does_what_its_naive_twin_does<S: RefScheme>() {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(ops in ops())| {
        let count = RefCount::<S>::new_locked();
        let mut naive = Naive(None);
        for op in ops {
            match op {
                Op::TryAdd(tried) => {
                    let expected = match naive.0 {
                        None => TryGet::Locked,
                        Some(refs) if refs + u32::from(tried) > MAX_REFS => TryGet::Saturated,
                        Some(refs) => {
                            naive.0 = Some(refs + u32::from(tried));
                            TryGet::Taken
                        }
                    };
                    prop_assert_eq!(count.try_add(n(tried)), expected);
                }
                // Locked is a bug and the limit aborts: the tests above have both.
                Op::Get => if let Some(refs) = naive.0.filter(|&refs| refs < MAX_REFS) {
                    count.get();
                    naive.0 = Some(refs + 1);
                },
                Op::Put(amount) => match naive.0 {
                    Some(refs) if refs > amount => {
                        prop_assert_eq!(count.sub_and_test(amount), Put::Kept);
                        naive.0 = Some(refs - amount);
                    }
                    // What is there is put, so that last puts are frequent.
                    Some(refs) => {
                        prop_assert_eq!(count.sub_and_test(refs), Put::Last);
                        naive.0 = None;
                    }
                    None => {}
                },
                Op::Freeze(expected) => {
                    let frozen = naive.0 == Some(expected);
                    prop_assert_eq!(count.freeze(expected), frozen);
                    if frozen {
                        naive.0 = None;
                    }
                }
                Op::FreeIfUnique => {
                    let freed = naive.0 == Some(1);
                    prop_assert_eq!(count.free_if_unique(), freed);
                    if freed {
                        naive.0 = None;
                    }
                }
                Op::Store(refs) => if naive.0.is_none() {
                    count.unfreeze(refs);
                    naive.0 = Some(refs);
                },
            }
            prop_assert_eq!(count.count(), naive.0.unwrap_or(0));
            prop_assert_eq!(count.is_locked(), naive.0.is_none());
            prop_assert_eq!(count.raw(), naive.0.unwrap_or(S::LOCKED));
        }
    });
}

const THREADS: u32 = 8;
const ROUNDS: u32 = if cfg!(miri) { 50 } else { 50_000 };

/// Failed tries that pile up on a locked word, from beside the threshold: while threads go on, the
/// word stays within the threshold and what they have under way, and it is bare when they are done.
#[test]
fn failed_tries_beside_the_threshold_never_unlock() {
    for below in [0, 1, 254, 255, 256, 5000] {
        let count = RefCount::<LockBit>::from_raw(LOCK + RESET_THRESHOLD - below);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let word = count.raw();
                    assert!(word >= LOCK, "unlocked: {word:#x}");
                    assert!(word - LOCK <= RESET_THRESHOLD + THREADS * MAX_TRY);
                    thread::yield_now();
                }
            });
            let tries: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| (0..ROUNDS / 5).all(|_| count.try_add(n(255)) == TryGet::Locked))
                })
                .collect();
            let all_failed = tries.into_iter().all(|tries| tries.join().unwrap());
            done.store(true, Ordering::Relaxed);
            assert!(all_failed);
        });
        assert_eq!(count.raw(), LOCK);
    }
}

/// A single failed try on a word that is above the threshold cleans it up at once.
#[test]
fn a_failed_try_above_the_threshold_resets() {
    for above in [0, 1, 1000, THREADS * MAX_TRY] {
        let count = RefCount::<LockBit>::from_raw(LOCK + RESET_THRESHOLD + above);
        assert_eq!(count.try_get(), TryGet::Locked);
        assert_eq!(count.raw(), LOCK);
    }
}

fn threads_at_the_limit_lose_no_reference<S: RefScheme>() {
    let count = RefCount::<S>::new(MAX_REFS - 600);
    let refused = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    match count.try_add(n(255)) {
                        TryGet::Taken => {
                            // Without it one processor runs each thread alone for long.
                            if round % 8 == 0 {
                                thread::yield_now();
                            }
                            assert_eq!(count.sub_and_test(255), Put::Kept);
                        }
                        TryGet::Saturated => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        TryGet::Locked => panic!("a live page is not locked"),
                    }
                }
            });
        }
    });
    assert_eq!(count.count(), MAX_REFS - 600);
    assert!(
        cfg!(miri) || refused.load(Ordering::Relaxed) > 0,
        "nothing was tried at the limit"
    );
}

/// One frame that is allocated again and again while strangers take references of it, late or not.
fn every_allocation_is_freed_once_by_whoever_puts_last<S: RefScheme>() {
    let count = RefCount::<S>::new_locked();
    let free = AtomicBool::new(true);
    let freed = AtomicU32::new(0);
    let done = AtomicBool::new(false);
    let put = || {
        if count.put().is_last() {
            assert!(count.is_locked());
            freed.fetch_add(1, Ordering::Relaxed);
            assert!(!free.swap(true, Ordering::Release), "freed twice");
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        if count.try_get().is_taken() {
                            assert!(!free.load(Ordering::Relaxed), "used after it was freed");
                            put();
                        }
                    }
                    thread::yield_now();
                }
            });
        }
        for round in 0..ROUNDS {
            while !free.load(Ordering::Acquire) {
                thread::yield_now();
            }
            free.store(false, Ordering::Relaxed);
            if round % 2 == 0 {
                count.set(1);
                put();
            } else {
                count.set(3);
                assert!(count.sub_and_test(2) == Put::Kept);
                if count.free_if_unique() {
                    freed.fetch_add(1, Ordering::Relaxed);
                    free.store(true, Ordering::Release);
                } else {
                    put();
                }
            }
        }
        while !free.load(Ordering::Acquire) {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(freed.load(Ordering::Relaxed), ROUNDS);
    assert_eq!(count.raw(), S::LOCKED);
}

/// Data that its users write in turns of their own, and that who frees it sums up without any other
/// ordering than that of the count.
fn what_users_write_is_there_for_who_frees<S: RefScheme>() {
    struct Page<S: RefScheme> {
        count: RefCount<S>,
        written: [std::cell::UnsafeCell<u32>; 4],
    }
    // SAFETY: each cell is written by one user, before its put, and read by who puts last.
    unsafe impl<S: RefScheme> Sync for Page<S> {}

    for round in 1..=(ROUNDS / 100).max(1) {
        let page = Page::<S> {
            count: RefCount::new(4),
            written: [const { std::cell::UnsafeCell::new(0) }; 4],
        };
        let sums: Vec<u32> = thread::scope(|scope| {
            let page = &page;
            let users: Vec<_> = (0..4)
                .map(|user: usize| {
                    scope.spawn(move || {
                        // SAFETY: this user's own cell, and its reference is not put yet.
                        unsafe { *page.written[user].get() = round };
                        page.count.put().is_last().then(|| {
                            page.written
                                .iter()
                                // SAFETY: the last put comes after those of all who write.
                                .map(|cell| unsafe { *cell.get() })
                                .sum()
                        })
                    })
                })
                .collect();
            users
                .into_iter()
                .filter_map(|user| user.join().unwrap())
                .collect()
        });
        assert_eq!(sums, [4 * round]);
    }
}

/// `.ci/nightly cas-loop` sets the variable: it fails if its cfg does not reach the crate.
#[test]
fn default_scheme_is_the_expected_one() {
    let expected = std::env::var("PAGEWELL_EXPECTED_SCHEME");
    let of_build = if cfg!(pagewell_ref_scheme = "cas_loop") {
        "cas-loop"
    } else {
        "lock-bit"
    };
    assert_eq!(Scheme::NAME, expected.as_deref().unwrap_or(of_build));
}
