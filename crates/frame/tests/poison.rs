//! Frames whose memory is bad, for both reference schemes: wherever one is when it is poisoned, it is
//! leaked exactly once and never handed out again, and all others stay of use.

#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    FrameKind, FrameNr, FramePool, FrameRef, Freed, MAX_FRAMES, Order, Poisoned, UniqueFrame,
};
use support::{
    Numbers, STRATEGIES, assert_accounts, assert_free_but_leaked, for_both_schemes, frame, get,
    order, pool, pool_in, pool_with_front_caches, pool_with_large_front_caches, split_block,
    take_all,
};

for_both_schemes! {
    a_free_frame_is_leaked_at_once
    a_frame_at_hand_of_this_thread_is_leaked_at_once
    a_frame_at_hand_of_another_thread_is_leaked_at_once
    a_tail_of_a_block_at_hand_is_leaked_at_once
    frames_that_another_thread_has_freed_are_leaked_at_once_wherever_they_are
    a_frame_of_an_allocated_block_is_leaked_when_it_is_freed
    all_frames_of_a_block_can_be_leaked
    a_frame_of_a_published_block_is_leaked_by_the_last_put
    a_frame_of_a_split_block_is_leaked_by_itself
    a_frame_poisoned_before_its_block_was_split_is_leaked_by_itself
    a_frame_is_poisoned_once
    a_frame_that_the_pool_does_not_have_is_not_poisoned
    a_joined_block_leaks_the_bad_frames_of_its_parts
    parts_of_a_joined_block_are_as_good_as_others_afterwards
    a_pool_may_lose_all_its_frames
    frames_poisoned_while_ranges_are_freed_are_leaked_once
    frames_poisoned_while_blocks_come_and_go_are_leaked_once
    frames_poisoned_while_blocks_are_joined_are_leaked_once
}

/// The frames that can be had, one by one.
fn frames_to_be_had<S: RefScheme>(pool: &FramePool<S>) -> BTreeSet<usize> {
    let all = take_all(pool, Order::ZERO);
    all.iter().map(|block| block.frame().index()).collect()
}

/// Checks that these frames are leaked, and that all others are free, and can be had.
#[track_caller]
fn assert_lost<S: RefScheme>(pool: &FramePool<S>, leaked: &[usize]) {
    assert_free_but_leaked(pool, leaked);
    let others = (0..pool.nr_frames()).filter(|nr| !leaked.contains(nr));
    assert_eq!(frames_to_be_had(pool), others.collect());
    assert_free_but_leaked(pool, leaked);
}

fn a_free_frame_is_leaked_at_once<S: RefScheme>() {
    let pool = pool_in::<S>(64, 2);
    let mut leaked = Vec::new();
    for nr in [0, 31, 32, 40, 63, 1] {
        assert_eq!(pool.poison(frame(nr)), Poisoned::Leaked);
        leaked.push(nr);
        assert_lost(&pool, &leaked);
    }
}

fn a_frame_at_hand_of_this_thread_is_leaked_at_once<S: RefScheme>() {
    let pool = pool_with_front_caches::<S>();
    drop(pool.alloc(Order::ZERO));
    let is_cached = |nr: &usize| pool.meta(frame(*nr)).kind().0 == FrameKind::Front;
    let cached: Vec<usize> = (0..pool.nr_frames()).filter(is_cached).collect();
    assert!(cached.len() > 1, "they are kept at hand");
    for (nr_leaked, nr) in cached.iter().enumerate() {
        assert_eq!(pool.poison(frame(*nr)), Poisoned::Leaked);
        assert_accounts(&pool, 0, nr_leaked + 1);
    }
    assert_lost(&pool, &cached);
}

fn a_frame_at_hand_of_another_thread_is_leaked_at_once<S: RefScheme>() {
    let pool = pool_with_front_caches::<S>();
    let (is_filled, is_over) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(take_all(&pool, Order::ZERO));
            is_filled.wait();
            is_over.wait();
            assert!(pool.alloc(Order::ZERO).is_some());
        });
        is_filled.wait();
        let is_cached = |nr: &usize| pool.meta(frame(*nr)).kind().0 == FrameKind::Front;
        let cached = (0..pool.nr_frames()).find(is_cached).unwrap();
        assert_eq!(pool.poison(frame(cached)), Poisoned::Leaked);
        assert_accounts(&pool, 0, 1);
        is_over.wait();
    });
    assert_eq!(pool.stats().nr_leaked, 1);
    assert_eq!(frames_to_be_had(&pool).len(), pool.nr_frames() - 1);
}

fn a_tail_of_a_block_at_hand_is_leaked_at_once<S: RefScheme>() {
    let pool = pool_with_large_front_caches::<S>();
    let mut leaked = Vec::new();
    for k in [1, 4, 9] {
        let first = pool.alloc(order(k)).unwrap().frame();
        assert_eq!(pool.meta(first).kind(), (FrameKind::Front, order(k)));
        let tail = first.index() + (1 << k) - 1;
        assert_eq!(pool.poison(frame(tail)), Poisoned::Leaked);
        leaked.push(tail);
        assert_accounts(&pool, 0, leaked.len());
    }
    assert_free_but_leaked(&pool, &leaked);
}

fn a_frame_of_an_allocated_block_is_leaked_when_it_is_freed<S: RefScheme>() {
    for k in [0, 1, 3, 6] {
        for at in [0, (1 << k) / 2, (1 << k) - 1] {
            let pool = pool::<S>(256);
            let neighbours = [pool.alloc(order(k)), pool.alloc(order(k))];
            let block = pool.alloc(order(k)).unwrap();
            let bad = block.frame().index() + at;
            assert_eq!(pool.poison(frame(bad)), Poisoned::WhenFreed);
            assert_accounts(&pool, 3 << k, 0);
            drop(block);
            assert_accounts(&pool, 2 << k, 1);
            drop(neighbours);
            assert_lost(&pool, &[bad]);
        }
    }
}

fn all_frames_of_a_block_can_be_leaked<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(order(3)).unwrap();
    let bad: Vec<usize> = (block.frame().index()..).take(8).collect();
    for nr in &bad {
        assert_eq!(pool.poison(frame(*nr)), Poisoned::WhenFreed);
    }
    drop(block);
    assert_lost(&pool, &bad);
}

fn a_frame_of_a_published_block_is_leaked_by_the_last_put<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(order(2)).unwrap();
    // SAFETY: (K) nobody but the test uses the pool.
    let nr = unsafe { block.publish(FrameKind::Page, (1, 1), 1) };
    // SAFETY: (A) it was published with one reference, which is this one.
    let reference = unsafe { FrameRef::from_raw(&pool, nr) };
    let reader = get(&pool, nr);
    let bad = nr.index() + 2;
    assert_eq!(pool.poison(frame(bad)), Poisoned::WhenFreed);
    drop(reference);
    assert_accounts(&pool, 4, 0);
    drop(reader);
    assert_lost(&pool, &[bad]);
}

fn a_frame_of_a_split_block_is_leaked_by_itself<S: RefScheme>() {
    for strategy in STRATEGIES {
        for at in [0, 5, 15] {
            let pool = pool::<S>(64);
            let first = split_block(&pool, order(4));
            let bad = first.index() + at;
            assert_eq!(pool.poison(frame(bad)), Poisoned::WhenFreed);
            assert_eq!(pool.free_contig_range_by(first, 16, strategy), Ok(0));
            assert_lost(&pool, &[bad]);
        }
    }
    let pool = pool::<S>(64);
    let first = split_block(&pool, order(4)).index();
    let _ = pool.poison(frame(first));
    for nr in first..first + 16 {
        assert_eq!(pool.free(frame(nr), Order::ZERO), Ok(Freed::Now));
    }
    assert_lost(&pool, &[first]);
}

fn a_frame_poisoned_before_its_block_was_split_is_leaked_by_itself<S: RefScheme>() {
    for strategy in STRATEGIES {
        for at in [0, 5, 15] {
            let pool = pool::<S>(64);
            let block = pool.alloc(order(4)).unwrap();
            let bad = block.frame().index() + at;
            assert_eq!(pool.poison(frame(bad)), Poisoned::WhenFreed);
            let mut range = block.split();
            let rest = range.split_off(8).unwrap();
            assert_eq!(rest.free(strategy), Ok(0));
            assert_accounts(&pool, 8, usize::from(at >= 8));
            assert_eq!(range.free(strategy), Ok(0));
            assert_lost(&pool, &[bad]);
        }
    }
}

fn a_frame_is_poisoned_once<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(order(1)).unwrap();
    let bad = [frame(60), block.frame()];
    assert_eq!(pool.poison(bad[0]), Poisoned::Leaked);
    assert_eq!(pool.poison(bad[1]), Poisoned::WhenFreed);
    assert_eq!(bad.map(|nr| pool.poison(nr)), [Poisoned::Already; 2]);
    assert_accounts(&pool, 2, 1);
    drop(block);
    assert_eq!(bad.map(|nr| pool.poison(nr)), [Poisoned::Already; 2]);
    assert_lost(&pool, &bad.map(FrameNr::index));
}

fn a_frame_that_the_pool_does_not_have_is_not_poisoned<S: RefScheme>() {
    let pool = pool::<S>(64);
    for nr in [64, 65, MAX_FRAMES] {
        assert_eq!(pool.poison(frame(nr)), Poisoned::NoSuchFrame);
    }
    assert_lost(&pool, &[]);
}

/// Two halves of a block of order 3 at frame 0, each with a handle.
fn halves<S: RefScheme>(pool: &FramePool<S>) -> Vec<UniqueFrame<'_, S>> {
    let halves = [pool.alloc(order(2)).unwrap(), pool.alloc(order(2)).unwrap()];
    assert_eq!(
        [&halves[0], &halves[1]].map(|half| half.frame().get()),
        [0, 4]
    );
    halves.into()
}

fn a_joined_block_leaks_the_bad_frames_of_its_parts<S: RefScheme>() {
    for bad in 0..8 {
        for k in [2, 3] {
            let pool = pool::<S>(64);
            let mut parts = halves(&pool);
            assert_eq!(pool.poison(frame(bad)), Poisoned::WhenFreed);
            let joined = pool.join(parts.split_off(0), order(3)).unwrap();
            // As the whole, or as its lower half, whose rest is freed at once.
            let kept = pool.join(vec![joined], order(k)).unwrap();
            let is_leaked = k == 2 && bad >= 4;
            assert_accounts(&pool, 1 << k, usize::from(is_leaked));
            drop(kept);
            assert_lost(&pool, &[bad]);
        }
    }
}

/// What a part's first frame says of bad ones among its tails was kept when the part was joined with
/// others, and freed with them: in a front cache that frame was out of order.
fn parts_of_a_joined_block_are_as_good_as_others_afterwards<S: RefScheme>() {
    let pool = pool_with_front_caches::<S>();
    let parts = halves(&pool);
    assert_eq!(pool.poison(frame(6)), Poisoned::WhenFreed);
    drop(pool.join(parts, order(3)).unwrap());
    assert_accounts(&pool, 0, 1);
    // Each of the frames is at hand once.
    let mut all = Vec::new();
    while let Some(block) = pool.alloc(Order::ZERO) {
        all.push(block);
        pool.verify().unwrap();
    }
    drop(all);
    assert_lost(&pool, &[6]);
}

fn a_pool_may_lose_all_its_frames<S: RefScheme>() {
    let pool = pool_in::<S>(200, 3);
    let block = pool.alloc(order(4));
    for nr in 0..200 {
        assert_ne!(pool.poison(frame(nr)), Poisoned::Already);
        pool.verify().unwrap();
    }
    assert_accounts(&pool, 16, 184);
    drop(block);
    assert_accounts(&pool, 0, 200);
    assert!(pool.alloc(Order::ZERO).is_none());
    assert_eq!(pool.alloc_bulk(10, &mut Vec::new()), 0);
    assert_accounts(&pool, 0, 200);
}

/// Which frames are known to be bad, and since when.
struct Bad {
    since: Vec<AtomicUsize>,
    nr: AtomicUsize,
}

impl Bad {
    /// Now, as a number of frames that are known to be bad.
    fn now(&self) -> usize {
        self.nr.load(Ordering::Acquire)
    }

    fn was_known(&self, nr: FrameNr, moment: usize) -> bool {
        let since = self.since[nr.index()].load(Ordering::Relaxed);
        since != 0 && since <= moment
    }
}

/// Runs `work` in so many threads while this one poisons the frames `bad`; then all but these is free.
fn poison_meanwhile<S: RefScheme>(
    pool: &FramePool<S>,
    bad: impl Iterator<Item = usize>,
    nr_threads: usize,
    work: impl Fn(&Bad) + Sync,
) {
    let is_over = AtomicBool::new(false);
    let barrier = Barrier::new(nr_threads + 1);
    let known = Bad {
        since: (0..pool.nr_frames()).map(|_| AtomicUsize::new(0)).collect(),
        nr: AtomicUsize::new(0),
    };
    let mut leaked = Vec::new();
    thread::scope(|scope| {
        for _ in 0..nr_threads {
            scope.spawn(|| {
                barrier.wait();
                while !is_over.load(Ordering::Relaxed) {
                    work(&known);
                    thread::yield_now();
                }
            });
        }
        barrier.wait();
        for nr in bad {
            assert_ne!(pool.poison(frame(nr)), Poisoned::Already);
            leaked.push(nr);
            known.since[nr].store(leaked.len(), Ordering::Relaxed);
            known.nr.store(leaked.len(), Ordering::Release);
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_lost(pool, &leaked);
}

/// Distinct numbers below `end`, in an order that looks random.
fn shuffled(end: usize, seed: u64) -> Vec<usize> {
    let mut numbers = Numbers::new(seed);
    let mut all: Vec<usize> = (0..end).collect();
    for at in (1..end).rev() {
        all.swap(at, numbers.below(at + 1));
    }
    all
}

fn frames_poisoned_while_ranges_are_freed_are_leaked_once<S: RefScheme>() {
    for (seed, strategy) in (1..).zip(STRATEGIES) {
        for round in 0..6 {
            let pool = pool::<S>(2048);
            let bad = shuffled(2048, 10 * seed + round).into_iter().take(40);
            // One thread: what it has freed is nobody's, and so what was bad by then is leaked.
            poison_meanwhile(&pool, bad, 1, |bad| {
                let moment = bad.now();
                let mut all = Vec::new();
                pool.alloc_bulk(usize::MAX, &mut all);
                let mut all: Vec<u32> = all.into_iter().map(|one| one.into_raw().get()).collect();
                all.sort_unstable();
                for nr in &all {
                    assert!(
                        !bad.was_known(FrameNr::new(*nr), moment),
                        "{nr} is bad, and handed out"
                    );
                }
                for run in all.chunk_by(|one, next| one + 1 == *next) {
                    let freed =
                        pool.free_contig_range_by(FrameNr::new(run[0]), run.len(), strategy);
                    assert_eq!(freed, Ok(0));
                }
            });
        }
    }
}

fn frames_poisoned_while_blocks_come_and_go_are_leaked_once<S: RefScheme>() {
    for round in 0..8 {
        let pool = pool::<S>(256);
        let bad = shuffled(256, 100 + round).into_iter().take(60);
        poison_meanwhile(&pool, bad, 2, |_| {
            let blocks: Vec<_> = (0..8).rev().map(|k| pool.alloc(order(k))).collect();
            let more: Vec<_> = (0..4).map(|k| pool.alloc(order(k))).collect();
            drop((more, blocks));
        });
    }
}

fn frames_poisoned_while_blocks_are_joined_are_leaked_once<S: RefScheme>() {
    for round in 0..20 {
        let pool = pool::<S>(32);
        let bad = shuffled(32, 200 + round).into_iter().take(8);
        poison_meanwhile(&pool, bad, 2, |_| {
            let Some(half) = pool.alloc(order(2)) else {
                return;
            };
            let other_half = FrameNr::new(half.frame().get() ^ 4);
            let mut parts = pool.take_free_within(other_half, order(2));
            parts.push(half);
            parts.sort_by_key(UniqueFrame::frame);
            drop(pool.join(parts, order(3)));
        });
    }
}

/// Another thread has freed more than its front cache holds: some are in that, some on their way to other front caches,
/// and some on the lists.
fn frames_that_another_thread_has_freed_are_leaked_at_once_wherever_they_are<S: RefScheme>() {
    let pool = pool::<S>(1 << 14);
    let mut frames = Vec::new();
    assert_eq!(pool.alloc_bulk(400, &mut frames), 400);
    let numbers: Vec<FrameNr> = frames.iter().map(UniqueFrame::frame).collect();
    thread::scope(|scope| {
        let freer = scope.spawn(|| drop(frames));
        freer.join().unwrap();
    });
    pool.verify().unwrap();
    for (nr, number) in numbers.into_iter().enumerate() {
        assert_eq!(pool.poison(number), Poisoned::Leaked);
        assert_eq!(pool.stats().nr_leaked, nr + 1);
    }
    pool.drain_front_caches();
    pool.verify().unwrap();
    assert_eq!(pool.stats().nr_free, (1 << 14) - 400);
}
