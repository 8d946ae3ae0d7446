//! Misuse of a pool, for both reference schemes: what is wrong is an error that says what and where,
//! nothing is changed by it, and everything can be freed afterwards; also while others try for references.

#![cfg(not(loom))]

mod support;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::refword::MAX_REFS;
use pagewell_frame::{
    FRAME_NR_BITS, FrameKind, FrameNr, FramePool, FrameRef, FreeError, FreeRange, Freed,
    MAX_FRAMES, Misuse, Order, TryGetFrame,
};
use support::{
    Numbers, STRATEGIES, assert_accounts, assert_all_free, assert_locked, for_both_schemes, frame,
    get, nr_free_blocks, order, pool, pool_in, split_block, take_all, take_all_raw,
};

for_both_schemes! {
    what_was_never_allocated_is_not_freed
    what_was_freed_is_not_freed_again
    a_block_that_was_not_split_is_no_range
    a_wrong_order_is_told_with_the_right_one
    tails_are_told_where_ranges_were_freed_before
    free_memory_is_told_where_ranges_were_freed_before
    what_a_handle_owns_is_not_freed_by_number
    what_was_given_up_is_not_given_up_again
    a_block_in_use_is_not_split
    a_block_with_too_many_references_is_not_freed
    an_owners_reference_that_was_stolen_frees_the_block_once
    a_range_beyond_the_pool_is_refused
    a_range_beyond_its_node_is_refused
    an_empty_range_is_refused
    one_wrong_frame_keeps_the_whole_range
    a_range_that_meets_a_held_block_gives_up_nothing
    late_tries_for_references_make_no_misuse_pass
    a_range_freed_by_two_threads_is_freed_once
    ranges_that_overlap_are_freed_once
    held_frames_given_up_by_two_threads_are_given_up_once
    a_frame_freed_by_two_threads_is_freed_once
}

/// Checks that it was refused, and what is said.
#[track_caller]
fn assert_refused<T: Debug>(result: Result<T, FreeError>, misuse: Misuse, nr: usize, text: &str) {
    let error = result.expect_err(text);
    assert_eq!((error.misuse, error.frame as usize), (misuse, nr));
    assert_eq!((error.nr_done, error.nr_held), (0, 0));
    assert_eq!(error.to_string(), text);
}

/// Checks that the pool is in order, and as it was, after what is done to it.
#[track_caller]
fn assert_unchanged<S: RefScheme>(pool: &FramePool<S>, misuse: impl FnOnce()) {
    let state = || {
        let kinds: Vec<_> = (0..pool.nr_frames())
            .map(|nr| (pool.meta(frame(nr)).kind(), pool.meta(frame(nr)).count()))
            .collect();
        (pool.stats(), nr_free_blocks(pool), kinds)
    };
    let before = state();
    misuse();
    pool.verify().unwrap();
    assert_eq!(state(), before);
}

/// Checks that a frame is refused wherever a single frame that is owned by its number is asked for.
#[track_caller]
fn assert_frame_refused<S: RefScheme>(pool: &FramePool<S>, nr: usize, misuse: Misuse, text: &str) {
    assert_unchanged(pool, || {
        assert_refused(pool.free(frame(nr), Order::ZERO), misuse, nr, text);
        assert_refused(pool.split(frame(nr), Order::ZERO), misuse, nr, text);
        for strategy in STRATEGIES {
            let freed = pool.free_contig_range_by(frame(nr), 1, strategy);
            assert_refused(freed, misuse, nr, text);
        }
    });
}

#[track_caller]
fn assert_not_allocated<S: RefScheme>(pool: &FramePool<S>, nr: usize) {
    let text = format!("frame {nr} is not allocated");
    assert_frame_refused(pool, nr, Misuse::NotAllocated, &text);
}

fn what_was_never_allocated_is_not_freed<S: RefScheme>() {
    let pool = pool_in::<S>(100, 3);
    for nr in 0..100 {
        assert_not_allocated(&pool, nr);
    }
    assert_all_free(&pool);
}

fn what_was_freed_is_not_freed_again<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(1024);
        take_all_raw(&pool);
        assert_eq!(pool.free_contig_range_by(frame(3), 90, strategy), Ok(0));
        assert_eq!(pool.free(frame(200), Order::ZERO), Ok(Freed::Now));
        for nr in [3, 4, 63, 64, 92, 200] {
            assert_not_allocated(&pool, nr);
        }
        for strategy in STRATEGIES {
            let again = pool.free_contig_range_by(frame(0), 93, strategy);
            assert_refused(again, Misuse::NotAllocated, 3, "frame 3 is not allocated");
        }
        assert_accounts(&pool, 1024 - 91);
        for (first, nr) in [(0, 3), (93, 107), (201, 823)] {
            assert_eq!(pool.free_contig_range_by(frame(first), nr, strategy), Ok(0));
        }
        assert_all_free(&pool);
    }
}

fn a_block_that_was_not_split_is_no_range<S: RefScheme>() {
    let pool = pool::<S>(64);
    let first = pool.alloc(order(3)).unwrap().into_raw().index();
    let unsplit = Misuse::Unsplit { order: order(3) };
    let text = format!("frame {first} is the first of a block of order 3 that was not split");
    assert_frame_refused(&pool, first, unsplit, &text);
    for tail in first + 1..first + 8 {
        let text = format!("frame {tail} is inside of a block that was not split");
        assert_frame_refused(&pool, tail, Misuse::Tail, &text);
    }
    assert_eq!(pool.free(frame(first), order(3)), Ok(Freed::Now));
    assert_all_free(&pool);
}

fn a_wrong_order_is_told_with_the_right_one<S: RefScheme>() {
    let pool = pool::<S>(64);
    let first = pool.alloc(order(2)).unwrap().into_raw();
    let wrong = Misuse::WrongOrder { order: order(2) };
    let text = format!("the block at frame {} is of order 2", first.get());
    for k in [1, 3, 10] {
        assert_unchanged(&pool, || {
            assert_refused(pool.free(first, order(k)), wrong, first.index(), &text);
            assert_refused(pool.split(first, order(k)), wrong, first.index(), &text);
        });
    }
    assert_eq!(pool.split(first, order(2)), Ok(()));
    let wrong = Misuse::WrongOrder { order: Order::ZERO };
    let text = format!("the block at frame {} is of order 0", first.get());
    assert_unchanged(&pool, || {
        assert_refused(pool.free(first, order(2)), wrong, first.index(), &text);
        assert_refused(pool.split(first, order(2)), wrong, first.index(), &text);
    });
    assert_eq!(pool.free_contig_range(first, 4), Ok(0));
    assert_all_free(&pool);
}

/// The words of tails say what the frames were last: here, single frames owned by their numbers.
fn tails_are_told_where_ranges_were_freed_before<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        let first = split_block(&pool, order(3));
        assert_eq!(pool.free_contig_range_by(first, 8, strategy), Ok(0));
        pool.drain_front_caches();
        let block = pool.alloc(order(3)).unwrap();
        assert_eq!(block.frame(), first);
        for tail in first.index() + 1..first.index() + 8 {
            let text = format!("frame {tail} is inside of a block that was not split");
            assert_frame_refused(&pool, tail, Misuse::Tail, &text);
            assert_refused(pool.free(frame(tail), order(1)), Misuse::Tail, tail, &text);
        }
        drop(block);
        assert_all_free(&pool);
    }
}

fn free_memory_is_told_where_ranges_were_freed_before<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        let first = split_block(&pool, order(3));
        assert_eq!(pool.free_contig_range_by(first, 8, strategy), Ok(0));
        for nr in first.index()..first.index() + 8 {
            let text = format!("frame {nr} is not allocated");
            for k in [0, 1, 3] {
                let (free, split) = (
                    pool.free(frame(nr), order(k)),
                    pool.split(frame(nr), order(k)),
                );
                assert_refused(free, Misuse::NotAllocated, nr, &text);
                assert_refused(split, Misuse::NotAllocated, nr, &text);
            }
        }
        assert_all_free(&pool);
    }
}

fn what_a_handle_owns_is_not_freed_by_number<S: RefScheme>() {
    let pool = pool::<S>(64);
    for k in [0, 2] {
        let unique = pool.alloc(order(k)).unwrap();
        let nr = unique.frame().index();
        let text = format!("frame {nr} is owned by a handle");
        assert_frame_refused(&pool, nr, Misuse::OwnedByHandle, &text);
        let freed = pool.free(frame(nr), order(k));
        assert_refused(freed, Misuse::OwnedByHandle, nr, &text);

        for kind in [FrameKind::Page, FrameKind::Leaf] {
            let unique = pool.alloc(order(k)).unwrap();
            // SAFETY: (K) nobody but the test uses the pool.
            let published = unsafe { unique.publish(kind, (1, 2), 1) };
            // SAFETY: (A) it was published with one reference, which is this one.
            let reference = unsafe { FrameRef::from_raw(&pool, published) };
            let nr = published.index();
            let text = format!("frame {nr} is owned by a handle");
            assert_frame_refused(&pool, nr, Misuse::OwnedByHandle, &text);
            drop(reference);
        }
        drop(unique);
        assert_all_free(&pool);
    }
}

fn what_was_given_up_is_not_given_up_again<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        let first = split_block(&pool, order(3)).index();
        let held = [get(&pool, frame(first + 2)), get(&pool, frame(first + 7))];
        assert_eq!(pool.free_contig_range_by(frame(first), 8, strategy), Ok(2));
        for nr in [first + 2, first + 7] {
            let text =
                format!("frame {nr} was given up already; others still hold references to it");
            assert_frame_refused(&pool, nr, Misuse::GivenUp, &text);
        }
        assert_not_allocated(&pool, first);
        assert_accounts(&pool, 2);
        drop(held);
        assert_all_free(&pool);

        let block = pool.alloc(order(2)).unwrap().into_raw();
        let held = get(&pool, block);
        assert_eq!(pool.free(block, order(2)), Ok(Freed::Later));
        assert_unchanged(&pool, || {
            let again = pool.free(block, order(2)).unwrap_err();
            assert_eq!(again.misuse, Misuse::GivenUp);
            let split = pool.split(block, order(2)).unwrap_err();
            assert_eq!(split.misuse, Misuse::GivenUp);
        });
        drop(held);
        assert_all_free(&pool);
    }
}

fn a_block_in_use_is_not_split<S: RefScheme>() {
    let pool = pool::<S>(64);
    for k in [0, 3] {
        let block = pool.alloc(order(k)).unwrap().into_raw();
        let reader = get(&pool, block);
        let text = format!("frame {} has references besides the owner's", block.index());
        assert_unchanged(&pool, || {
            let split = pool.split(block, order(k));
            assert_refused(split, Misuse::InUse, block.index(), &text);
        });
        drop(reader);
        assert_eq!(pool.split(block, order(k)), Ok(()));
        assert_eq!(pool.free_contig_range(block, 1 << k), Ok(0));
        assert_all_free(&pool);
    }
}

fn a_block_with_too_many_references_is_not_freed<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(Order::ZERO).unwrap();
    // SAFETY: (K) nobody but the test uses the pool.
    let nr = unsafe { block.publish(FrameKind::Raw, (0, 0), MAX_REFS) };
    let text = format!("frame {} has as many references as it can count", nr.get());
    assert_unchanged(&pool, || {
        let freed = pool.free(nr, Order::ZERO);
        assert_refused(freed, Misuse::Saturated, nr.index(), &text);
        for strategy in STRATEGIES {
            let error = pool.free_contig_range_by(nr, 1, strategy).unwrap_err();
            assert_eq!((error.misuse, error.nr_done), (Misuse::Saturated, 0));
        }
        assert!(matches!(pool.try_get(nr), TryGetFrame::Saturated));
    });
    // SAFETY: (A) all references are this test's; this is one of them.
    let reference = unsafe { FrameRef::from_raw(&pool, nr) };
    // SAFETY: (A) so many were published, and none was used.
    drop(unsafe { reference.freeze(MAX_REFS) });
    assert_all_free(&pool);
}

/// The duty of `FrameRef::from_raw` is broken here on purpose; nobody looks into the memory.
fn an_owners_reference_that_was_stolen_frees_the_block_once<S: RefScheme>() {
    let pool = pool::<S>(64);
    let steal = |nr| {
        // SAFETY: (A) is what is broken: the reference is the owner's.
        drop(unsafe { FrameRef::from_raw(&pool, nr) });
    };
    // With no reader the thief's reference is the last one.
    let alone = pool.alloc(Order::ZERO).unwrap().into_raw();
    steal(alone);
    assert_not_allocated(&pool, alone.index());
    // With readers the owner's free takes one of theirs, and the last of them is one too many.
    for nr_readers in [1, 2, 3] {
        let nr = pool.alloc(order(1)).unwrap().into_raw();
        let mut readers: Vec<_> = (0..nr_readers).map(|_| get(&pool, nr)).collect();
        steal(nr);
        let _ = pool.free(nr, order(1));
        let last = readers.pop();
        drop(readers);
        assert_locked(&pool, nr);
        let put = catch_unwind(AssertUnwindSafe(|| drop(last)));
        assert!(put.is_err(), "nobody was told of the theft");
        assert_all_free(&pool);
    }
}

fn a_range_beyond_the_pool_is_refused<S: RefScheme>() {
    let pool = pool::<S>(64);
    take_all_raw(&pool);
    let last = (1 << FRAME_NR_BITS) - 1;
    for first in [64, 65, last] {
        let text = format!("frame {first} is outside of the pool");
        assert_frame_refused(&pool, first, Misuse::OutsidePool, &text);
        for nr in [2, MAX_FRAMES, usize::MAX] {
            let freed = pool.free_contig_range(frame(first), nr);
            assert_refused(freed, Misuse::OutsidePool, first, &text);
        }
        let freed = pool.free(frame(first), Order::MAX);
        assert_refused(freed, Misuse::OutsidePool, first, &text);
    }
    for strategy in STRATEGIES {
        for first in [0, 1, 63] {
            for nr in [65 - first, 1 << 31, 1 << 32, usize::MAX - first, usize::MAX] {
                assert_unchanged(&pool, || {
                    let freed = pool.free_contig_range_by(frame(first), nr, strategy);
                    let text = "frame 64 is outside of the pool";
                    assert_refused(freed, Misuse::OutsidePool, 64, text);
                });
            }
        }
    }
    assert_eq!(pool.free_contig_range(frame(0), 64), Ok(0));
    assert_all_free(&pool);
}

fn a_range_beyond_its_node_is_refused<S: RefScheme>() {
    let pool = pool_in::<S>(96, 3);
    take_all_raw(&pool);
    for strategy in STRATEGIES {
        for (first, nr, end) in [(0, 33, 32), (31, 2, 32), (32, 64, 64), (0, 96, 32)] {
            assert_unchanged(&pool, || {
                let freed = pool.free_contig_range_by(frame(first), nr, strategy);
                let text = format!("frame {end} is outside of the node that the range begins in");
                assert_refused(freed, Misuse::OutsideNode, end, &text);
            });
        }
    }
    for first in [0, 32, 64] {
        assert_eq!(pool.free_contig_range(frame(first), 32), Ok(0));
    }
    assert_all_free(&pool);
}

fn an_empty_range_is_refused<S: RefScheme>() {
    let pool = pool::<S>(64);
    let first = split_block(&pool, order(2));
    for nr in [first.index(), 63, 64, MAX_FRAMES] {
        for strategy in STRATEGIES {
            assert_unchanged(&pool, || {
                let freed = pool.free_contig_range_by(frame(nr), 0, strategy);
                assert_refused(
                    freed,
                    Misuse::Empty,
                    nr,
                    &format!("an empty range at frame {nr}"),
                );
            });
        }
    }
    assert_eq!(pool.free_contig_range(first, 4), Ok(0));
    assert_all_free(&pool);
}

fn one_wrong_frame_keeps_the_whole_range<S: RefScheme>() {
    for strategy in STRATEGIES {
        for wrong in [16, 17, 29, 31] {
            let pool = pool::<S>(64);
            take_all_raw(&pool);
            assert_eq!(pool.free(frame(wrong), Order::ZERO), Ok(Freed::Now));
            assert_unchanged(&pool, || {
                let freed = pool.free_contig_range_by(frame(16), 16, strategy);
                let text = format!("frame {wrong} is not allocated");
                assert_refused(freed, Misuse::NotAllocated, wrong, &text);
            });
            for nr in (0..64).filter(|nr| *nr != wrong) {
                assert_eq!(pool.free(frame(nr), Order::ZERO), Ok(Freed::Now));
            }
            assert_all_free(&pool);
        }
    }
}

fn a_range_that_meets_a_held_block_gives_up_nothing<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        take_all_raw(&pool);
        let held = get(&pool, frame(3));
        let given_up = get(&pool, frame(9));
        assert_eq!(pool.free(frame(9), Order::ZERO), Ok(Freed::Later));
        assert_unchanged(&pool, || {
            let error = pool.free_contig_range_by(frame(0), 32, strategy);
            assert_eq!(error.map_err(|error| error.misuse), Err(Misuse::GivenUp));
        });
        drop((held, given_up));
        assert_eq!(pool.free_contig_range_by(frame(0), 9, strategy), Ok(0));
        assert_eq!(pool.free_contig_range_by(frame(10), 54, strategy), Ok(0));
        assert_all_free(&pool);
    }
}

/// Threads take references to whatever frame they can while one allocates, frees, and frees again.
fn late_tries_for_references_make_no_misuse_pass<S: RefScheme>() {
    const FRAMES: usize = 128;
    let pool = pool_in::<S>(FRAMES, 2);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..=2 {
            let (pool, is_over) = (&pool, &is_over);
            scope.spawn(move || {
                let mut numbers = Numbers::new(seed);
                let mut held = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let any = frame(numbers.below(FRAMES));
                    if let TryGetFrame::Taken(reference) = pool.try_get(any) {
                        held.push(reference);
                    }
                    if held.len() > numbers.below(4) {
                        held.clear();
                    }
                }
            });
        }
        // The others end also if this one panics.
        let rounds = catch_unwind(AssertUnwindSafe(|| {
            let mut numbers = Numbers::new(3);
            for _ in 0..2000 {
                misuse_a_block(&pool, &mut numbers);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        rounds.unwrap();
    });
    assert_all_free(&pool);
}

fn misuse_a_block<S: RefScheme>(pool: &FramePool<S>, numbers: &mut Numbers) {
    let order = order(numbers.below(6) as u8);
    let nr = order.frames() as usize;
    // What others hold may be in the way.
    let Some(block) = pool.alloc(order) else {
        return;
    };
    let first = block.into_raw();
    if order > Order::ZERO {
        assert!(pool.free_contig_range(first, nr).is_err(), "not split");
        assert!(pool.free(first, Order::ZERO).is_err(), "not split");
        assert!(
            pool.free(FrameNr::new(first.get() + 1), Order::ZERO)
                .is_err()
        );
    }
    let strategy = STRATEGIES[numbers.below(3)];
    // A late one may be there at every moment, but not for long.
    while let Err(error) = pool.split(first, order) {
        assert_eq!(error.misuse, Misuse::InUse);
        thread::yield_now();
    }
    let end = FrameNr::new(first.get() + order.frames() - 1);
    if numbers.below(2) == 0 {
        assert!(pool.free(end, Order::ZERO).is_ok());
        assert!(pool.free(end, Order::ZERO).is_err(), "freed twice");
        let whole = pool.free_contig_range_by(first, nr, strategy).unwrap_err();
        assert_eq!((whole.frame, whole.nr_done), (end.get(), 0));
        if nr > 1 {
            let rest = pool.free_contig_range_by(first, nr - 1, strategy);
            assert!(rest.is_ok_and(|nr_held| nr_held < nr));
        }
    } else {
        let freed = pool.free_contig_range_by(first, nr, strategy);
        assert!(freed.is_ok_and(|nr_held| nr_held <= nr));
        let again = pool.free_contig_range_by(first, nr, strategy).unwrap_err();
        assert_eq!(again.nr_done, 0);
    }
    for nr in first.get()..=end.get() {
        // What exactly is wrong depends on how far the one has come that puts the last reference.
        assert!(pool.free(FrameNr::new(nr), Order::ZERO).is_err());
    }
}

/// How many frames came back.
fn nr_given_back(freed: &Result<usize, FreeError>, nr: usize) -> usize {
    match freed {
        Ok(nr_held) => {
            assert_eq!(*nr_held, 0);
            nr
        }
        Err(error) => {
            // On its way to a list a block may be seen as somebody's own.
            assert!(
                !matches!(error.misuse, Misuse::OutsidePool | Misuse::InUse),
                "{error}"
            );
            error.nr_done
        }
    }
}

/// Two threads free a range each, at once; how many frames each has given back.
fn free_both<S: RefScheme>(
    pool: &FramePool<S>,
    ranges: [(usize, usize, FreeRange); 2],
) -> [usize; 2] {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let threads = ranges.map(|(first, nr, strategy)| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                let freed = pool.free_contig_range_by(frame(first), nr, strategy);
                nr_given_back(&freed, nr)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

fn a_range_freed_by_two_threads_is_freed_once<S: RefScheme>() {
    let pool = pool::<S>(1024);
    for round in 0..150 {
        take_all_raw(&pool);
        let strategies = [STRATEGIES[round % 3], STRATEGIES[round / 3 % 3]];
        let nr = 1024 - round;
        let given_back = free_both(&pool, strategies.map(|strategy| (round, nr, strategy)));
        assert_eq!(given_back[0] + given_back[1], nr);
        assert_accounts(&pool, round);
        for nr in 0..round {
            assert_eq!(pool.free(frame(nr), Order::ZERO), Ok(Freed::Now));
        }
        assert_all_free(&pool);
    }
}

fn ranges_that_overlap_are_freed_once<S: RefScheme>() {
    let pool = pool::<S>(512);
    for round in 0..150 {
        take_all_raw(&pool);
        let strategies = [STRATEGIES[round % 3], STRATEGIES[round / 3 % 3]];
        let ranges = [(round, 300, strategies[0]), (512 - 300, 300, strategies[1])];
        let given_back: usize = free_both(&pool, ranges).iter().sum();
        assert!(given_back >= 300, "one of them has no reason to fail");
        assert_accounts(&pool, 512 - given_back);
        let rest = (0..512).filter(|nr| pool.free(frame(*nr), Order::ZERO).is_ok());
        assert_eq!(rest.count(), 512 - given_back);
        assert_all_free(&pool);
    }
}

fn held_frames_given_up_by_two_threads_are_given_up_once<S: RefScheme>() {
    let pool = pool::<S>(512);
    for round in 0..60 {
        take_all_raw(&pool);
        let readers: Vec<_> = (0..512).map(|nr| get(&pool, frame(nr))).collect();
        let barrier = Barrier::new(2);
        let give_up = &|strategy| {
            barrier.wait();
            match pool.free_contig_range_by(frame(0), 512, strategy) {
                Ok(nr_held) => (512, nr_held),
                Err(error) => (error.nr_done, error.nr_held),
            }
        };
        let given_up = thread::scope(|scope| {
            let strategies = [STRATEGIES[round % 3], STRATEGIES[round / 3 % 3]];
            let threads = strategies.map(|strategy| scope.spawn(move || give_up(strategy)));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(given_up[0].0 + given_up[1].0, 512);
        assert_eq!(given_up[0].1 + given_up[1].1, 512);
        assert!(readers.iter().all(|reader| reader.meta().count() == 1));
        drop(readers);
        assert_all_free(&pool);
    }
}

fn a_frame_freed_by_two_threads_is_freed_once<S: RefScheme>() {
    let pool = pool::<S>(256);
    for _ in 0..20 {
        take_all_raw(&pool);
        let barrier = Barrier::new(2);
        let free_all = || {
            barrier.wait();
            let freed = (0..256).map(|nr| pool.free(frame(nr), Order::ZERO));
            freed.filter(Result::is_ok).count()
        };
        let nr_freed = thread::scope(|scope| {
            let threads = [scope.spawn(free_all), scope.spawn(free_all)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(nr_freed[0] + nr_freed[1], 256);
        assert_all_free(&pool);
    }
}

#[test]
fn absurd_orders_and_numbers_cannot_be_made() {
    for k in 11..=u8::MAX {
        assert_eq!(Order::new(k), None);
    }
    assert_eq!(FrameNr::try_new(1 << FRAME_NR_BITS), None);
    assert_eq!(FrameNr::try_new(u32::MAX), None);
    assert!(catch_unwind(|| FrameNr::new(1 << FRAME_NR_BITS)).is_err());
}

#[test]
fn nodes_too_small_for_a_block_give_none_and_keep_what_they_have() {
    for (nr_frames, nr_nodes) in [(1, 1), (3, 3), (64, 64), (6, 2)] {
        let pool: FramePool = pool_in(nr_frames, nr_nodes);
        for k in 2..=Order::MAX.get() {
            assert!(pool.alloc(order(k)).is_none());
            assert!(pool.take_free_within(frame(0), order(k)).is_empty());
        }
        let all = take_all(&pool, Order::ZERO);
        assert_eq!(all.len(), nr_frames);
        assert_eq!(pool.alloc_bulk(usize::MAX, &mut Vec::new()), 0);
        drop(all);
        assert_all_free(&pool);
    }
}
