//! Frees of contiguous ranges by each strategy: the blocks that become free, and the frames to
//! which others have references. The handle of a range; threads that do all of this at once.

#![cfg(not(loom))]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use pagewell_frame::{
    FRAME_BYTES, FrameNr, FramePool, FrameRange, FrameRef, FreeRange, Order, TryGetFrame,
};
use support::{
    Numbers, STRATEGIES, assert_accounts, assert_all_free, assert_locked, frame, get,
    maximal_blocks, nr_free_blocks, order, pool, pool_in, pool_with_large_front_caches,
    split_block, take_all, take_all_split,
};

/// Whether what is free is in the largest blocks that there can be.
#[track_caller]
fn assert_merged(pool: &FramePool, is_free: impl Fn(usize) -> bool) {
    pool.drain_front_caches();
    pool.verify().unwrap();
    assert_eq!(nr_free_blocks(pool), maximal_blocks(pool, is_free));
}

/// Cuts ranges where `frames` begin and end: the ranges of these frames, and the others.
fn cut<'p>(
    ranges: Vec<FrameRange<'p>>,
    frames: std::ops::Range<usize>,
) -> (Vec<FrameRange<'p>>, Vec<FrameRange<'p>>) {
    let mut parts = Vec::new();
    for mut range in ranges {
        let first = range.first().index();
        let behind = range.split_off(frames.end.saturating_sub(first));
        let within = range.split_off(frames.start.saturating_sub(first));
        parts.push(range);
        parts.extend([within, behind].into_iter().flatten());
    }
    parts
        .into_iter()
        .partition(|range| frames.contains(&range.first().index()))
}

#[test]
fn every_start_and_length_comes_back_as_the_largest_blocks() {
    let pool = pool(1100);
    let mut numbers = Numbers::new(7);
    let edges = [0, 1, 2, 511, 512, 513, 1023, 1024, 1099];
    for strategy in STRATEGIES {
        for round in 0..60 {
            let all = take_all_split(&pool);
            let first = *edges
                .get(round % 15)
                .unwrap_or(&numbers.below(pool.nr_frames()));
            let most = pool.nr_frames() - first;
            let nr = [1, most, 1 + numbers.below(most), 1 + numbers.below(most)][round % 4];
            let (freed, others) = cut(all, first..first + nr);
            assert_eq!(freed.iter().map(FrameRange::len).sum::<usize>(), nr);
            for range in freed {
                assert_eq!(range.free(strategy), 0);
            }
            assert_accounts(&pool, 1100 - nr);
            let is_free = |at| (first..first + nr).contains(&at);
            assert_merged(&pool, is_free);
            for range in others {
                assert_eq!(range.free(strategy), 0);
            }
            assert_all_free(&pool);
        }
    }
}

#[test]
fn a_pool_of_ranges_is_freed_whole() {
    for strategy in STRATEGIES {
        let pool = pool(4096);
        for range in take_all_split(&pool) {
            assert_eq!(range.free(strategy), 0);
        }
        assert_all_free(&pool);
        assert_eq!(pool.free_blocks().of_order(Order::MAX), 4);
        assert_eq!(pool.free_blocks().share_from(Order::MAX), Some(1.0));
    }
}

#[test]
fn a_split_page_block_is_one_again_at_once() {
    for strategy in [FreeRange::Chunked, FreeRange::Merged] {
        let pool = pool(2048);
        let others = take_all(&pool, Order::PAGE_BLOCK);
        let nr_others = others.len();
        drop(others.into_iter().next_back());
        let range = split_block(&pool, Order::PAGE_BLOCK);
        let block = range.first();
        assert_eq!(nr_others, 4);
        let others = take_all(&pool, Order::PAGE_BLOCK);
        let before = nr_free_blocks(&pool)[Order::PAGE_BLOCK.index()];
        assert_eq!(range.free(strategy), 0);
        let after = nr_free_blocks(&pool)[Order::PAGE_BLOCK.index()];
        assert_eq!(after, before + 1, "{strategy:?}");
        let again = pool.alloc(Order::PAGE_BLOCK).unwrap();
        assert_eq!(again.frame(), block);
        pool.verify().unwrap();
        drop((again, others));
        assert_all_free(&pool);
    }
}

#[test]
fn a_split_page_block_goes_through_the_front_cache() {
    let pool = pool_with_large_front_caches();
    for strategy in STRATEGIES {
        let range = split_block(&pool, Order::PAGE_BLOCK);
        let block = range.first();
        assert_eq!(range.free(strategy), 0);
        if strategy != FreeRange::OneByOne {
            let cached = pool.stats().nr_cached;
            let again = pool.alloc(Order::PAGE_BLOCK).unwrap();
            assert_eq!(again.frame(), block, "the one freed last");
            assert_eq!(pool.stats().nr_cached, cached - 512);
        }
        assert_accounts(&pool, 0);
    }
    assert_all_free(&pool);
}

#[test]
fn a_merged_block_is_as_if_it_had_never_been_split() {
    let pool = pool(1024);
    let kinds = || -> Vec<_> {
        let frames = (0..1024).map(|nr| pool.meta(frame(nr)).kind());
        frames.collect()
    };
    let fresh = kinds();
    for k in [3, 5, 9] {
        let range = split_block(&pool, order(k));
        assert_eq!(range.free(FreeRange::Merged), 0);
        assert_all_free(&pool);
        assert_eq!(kinds(), fresh);
    }
}

#[test]
fn held_frames_are_counted_and_freed_by_their_last_put() {
    for strategy in STRATEGIES {
        let pool = pool(512);
        let range = split_block(&pool, order(6));
        let at = [0, 1, 17, 31, 32, 63];
        let held = at.map(|at| range.get(at).unwrap());
        let more = at.map(|at| range.get(at).unwrap());
        assert_eq!(range.free(strategy), at.len());
        assert_accounts(&pool, at.len());
        drop(held);
        assert_accounts(&pool, at.len());
        for (nr_put, reference) in more.into_iter().enumerate() {
            assert_accounts(&pool, at.len() - nr_put);
            let nr = reference.frame();
            // References to a frame whose range was freed are as good as others.
            drop(get(&pool, nr));
            drop(reference);
            assert_locked(&pool, nr);
        }
        assert_all_free(&pool);
    }
}

#[test]
fn held_frames_are_one_by_one_the_only_ones_left() {
    for strategy in STRATEGIES {
        let pool = pool(64);
        for held in 0..64 {
            let range = split_block(&pool, order(6));
            let reference = range.get(held).unwrap();
            assert_eq!(range.free(strategy), 1);
            assert_merged(&pool, |at| at != held);
            drop(reference);
            assert_all_free(&pool);
        }
    }
}

#[test]
fn a_split_frame_is_free_at_once_where_nobody_holds_it() {
    let pool = pool(64);
    let mut range = split_block(&pool, order(6));
    for nr in (1..64).rev() {
        drop(range.split_off(nr));
        assert_accounts(&pool, nr);
    }
    drop(range);
    assert_all_free(&pool);
}

#[test]
fn a_range_is_cut_and_each_part_freed_by_itself() {
    for strategy in STRATEGIES {
        let pool = pool(64);
        let mut low = pool.alloc(order(6)).unwrap().split();
        for at in [0, 64, 65, usize::MAX] {
            assert!(low.split_off(at).is_none());
        }
        let mut high = low.split_off(23).unwrap();
        let middle = high
            .split_off(1)
            .map(|rest| std::mem::replace(&mut high, rest));
        let middle = middle.unwrap();
        let ends = [&low, &middle, &high].map(|range| (range.first().get(), range.len()));
        assert_eq!(ends, [(0, 23), (23, 1), (24, 40)]);
        assert_eq!(middle.free(strategy), 0);
        assert_accounts(&pool, 63);
        drop(low);
        assert_accounts(&pool, 40);
        assert_eq!(high.free(strategy), 0);
        assert_all_free(&pool);
    }
}

#[test]
fn a_range_gives_references_to_its_own_frames_only() {
    let pool = pool(64);
    let mut all = take_all(&pool, order(4));
    all.sort_unstable_by_key(|block| block.frame());
    let range = all.remove(1).split();
    let frames: Vec<FrameNr> = (0..16)
        .filter_map(|at| range.get(at))
        .map(|reference| reference.frame())
        .collect();
    assert_eq!(frames, (16..32).map(frame).collect::<Vec<_>>());
    for at in [16, 17, usize::MAX, (1 << 32) + 1] {
        assert!(range.get(at).is_none(), "{at}");
    }
    let reader = range.get(15).unwrap();
    assert_eq!(range.free(FreeRange::Chunked), 1);
    drop(reader);
    assert_accounts(&pool, 48);
}

/// Threads take references to whatever frame they can while one allocates ranges and frees them in every way.
#[test]
fn late_tries_for_references_lose_no_frame() {
    const FRAMES: usize = 128;
    let pool = pool_in(FRAMES, 2);
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
                let Some(block) = pool.alloc(order(numbers.below(7) as u8)) else {
                    continue;
                };
                let mut range = block.split();
                let rest = range.split_off(numbers.below(64));
                for range in [Some(range), rest].into_iter().flatten() {
                    let nr = range.len();
                    assert!(range.free(STRATEGIES[numbers.below(3)]) <= nr);
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        rounds.unwrap();
    });
    assert_all_free(&pool);
}

#[test]
fn a_range_has_the_bytes_of_its_block() {
    let pool = pool(64);
    let block = pool.alloc(order(2)).unwrap();
    block.bytes().copy_from(0, &[7; 4 * FRAME_BYTES]);
    let mut range = block.split();
    let rest = range.split_off(3).unwrap();
    assert_eq!(range.bytes().len(), 3 * FRAME_BYTES);
    assert_eq!(rest.bytes().len(), FRAME_BYTES);
    let reader = rest.get(0).unwrap();
    // Nobody relies on the bytes of a frame of a range.
    reader.raw_bytes().unwrap().copy_from(0, &[9; FRAME_BYTES]);
    drop(reader);
    let mut bytes = [0; FRAME_BYTES];
    range.get(2).unwrap().bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [7; FRAME_BYTES]);
    rest.get(0).unwrap().bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [9; FRAME_BYTES]);
}

/// Where a thread marks each frame that it has, and others find the mark.
struct Stamps<'p> {
    pool: &'p FramePool,
}

impl Stamps<'_> {
    fn read(&self, nr: FrameNr) -> u64 {
        let mut bytes = [0; 8];
        self.pool.bytes(nr, 8).copy_to(0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn write(&self, range: &FrameRange<'_>, stamp: u64) {
        for (at, nr) in frames(range).enumerate() {
            let stamp = stamp << 32 | u64::from(nr.get());
            let reference = range.get(at).unwrap();
            let bytes = reference.raw_bytes().unwrap();
            bytes.copy_from(0, &stamp.to_le_bytes());
        }
    }

    #[track_caller]
    fn check(&self, nr: FrameNr, stamp: u64) {
        assert_eq!(self.read(nr), stamp << 32 | u64::from(nr.get()), "{nr:?}");
    }
}

fn frames(range: &FrameRange<'_>) -> impl Iterator<Item = FrameNr> {
    let first = range.first().get();
    (first..first + range.len() as u32).map(FrameNr::new)
}

/// A reference that was lent to whoever takes it, and the stamp that its frame keeps meanwhile.
type Lent<'p> = Mutex<Vec<(FrameRef<'p>, u64)>>;

/// Each thread stamps its ranges, lends references, frees in every way, and puts what others have lent; a
/// frame that is handed out twice, or too early, has the wrong stamp.
#[test]
fn threads_share_ranges_and_lose_nothing() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 1500;
    let pool = pool_in(512, 2);
    let lent: Lent<'_> = Mutex::new(Vec::new());
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for me in 1..=THREADS {
            let (pool, lent, barrier) = (&pool, &lent, &barrier);
            scope.spawn(move || {
                let mut numbers = Numbers::new(me);
                let mut held = Vec::new();
                barrier.wait();
                for round in 0..ROUNDS {
                    let stamp = me << 24 | round;
                    share_a_range(pool, stamp, &mut numbers, &mut held, lent);
                }
            });
        }
    });
    let stamps = Stamps { pool: &pool };
    for (reference, stamp) in lent.into_inner().unwrap() {
        stamps.check(reference.frame(), stamp);
        drop(reference);
    }
    assert_all_free(&pool);
}

fn share_a_range<'p>(
    pool: &'p FramePool,
    stamp: u64,
    numbers: &mut Numbers,
    held: &mut Vec<(FrameRange<'p>, u64)>,
    lent: &Lent<'p>,
) {
    let stamps = Stamps { pool };
    if let Some(block) = pool.alloc(order(numbers.below(7) as u8)) {
        let mut range = block.split();
        stamps.write(&range, stamp);
        let references = (0..numbers.below(3)).filter_map(|_| range.get(numbers.below(64)));
        let references: Vec<_> = references.map(|reference| (reference, stamp)).collect();
        lent.lock().unwrap().extend(references);
        let rest = range.split_off(numbers.below(64));
        held.extend(rest.map(|rest| (rest, stamp)));
        held.push((range, stamp));
    }
    // Whatever somebody has lent, and not always, so that there is some.
    let found = {
        let mut lent = lent.lock().unwrap();
        let nr = lent.len();
        (nr > 8).then(|| lent.swap_remove(numbers.below(nr)))
    };
    if let Some((reference, stamp)) = found {
        stamps.check(reference.frame(), stamp);
    }
    while held.len() > numbers.below(5) {
        let nr = held.len();
        let (range, stamp) = held.swap_remove(numbers.below(nr));
        frames(&range).for_each(|nr| stamps.check(nr, stamp));
        match numbers.below(5) {
            3 => drop(range),
            4 => {
                let mut range = range;
                while let Some(rest) = range.split_off(1) {
                    drop(std::mem::replace(&mut range, rest));
                }
            }
            strategy => _ = range.free(STRATEGIES[strategy]),
        }
    }
}
