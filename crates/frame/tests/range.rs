//! Freeing contiguous ranges, for both reference schemes and each strategy: what comes back as which
//! blocks, what others hold; the handle of a range; and threads that do all of it at once.

#![cfg(not(loom))]

mod support;

use std::sync::{Barrier, Mutex};
use std::thread;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{
    FRAME_BYTES, FrameNr, FramePool, FrameRange, FrameRef, FreeRange, Freed, Misuse, Order,
};
use support::{
    Numbers, STRATEGIES, assert_accounts, assert_all_free, assert_locked, for_both_schemes, frame,
    get, maximal_blocks, nr_free_blocks, order, pool, pool_in, pool_with_large_front_caches,
    split_block, take_all, take_all_raw,
};

for_both_schemes! {
    every_start_and_length_comes_back_as_the_largest_blocks
    a_pool_is_freed_in_one_call
    a_split_page_block_is_one_again_at_once
    a_split_page_block_goes_through_the_front_cache
    a_merged_block_is_as_if_it_had_never_been_split
    parts_of_several_blocks_are_one_range
    held_frames_are_counted_and_freed_by_their_last_put
    held_frames_are_one_by_one_the_only_ones_left
    single_blocks_are_given_back_now_or_later
    a_split_frame_is_free_at_once_where_nobody_holds_it
    a_range_is_cut_and_each_part_freed_by_itself
    a_range_gives_references_to_its_own_frames_only
    a_dropped_range_frees_what_was_not_freed_by_number
    a_range_freed_by_number_before_is_told
    a_range_has_the_bytes_of_its_block
    threads_share_ranges_and_lose_nothing
}

/// Whether what is free is in the largest blocks that there can be.
#[track_caller]
fn assert_merged<S: RefScheme>(pool: &FramePool<S>, is_free: impl Fn(usize) -> bool) {
    pool.drain_front_caches();
    pool.verify().unwrap();
    assert_eq!(nr_free_blocks(pool), maximal_blocks(pool, is_free));
}

fn every_start_and_length_comes_back_as_the_largest_blocks<S: RefScheme>() {
    let pool = pool::<S>(1100);
    let mut numbers = Numbers::new(7);
    let edges = [0, 1, 2, 511, 512, 513, 1023, 1024, 1099];
    for strategy in STRATEGIES {
        for round in 0..60 {
            take_all_raw(&pool);
            let first = *edges
                .get(round % 15)
                .unwrap_or(&numbers.below(pool.nr_frames()));
            let most = pool.nr_frames() - first;
            let nr = [1, most, 1 + numbers.below(most), 1 + numbers.below(most)][round % 4];
            let freed = pool.free_contig_range_by(frame(first), nr, strategy);
            assert_eq!(freed, Ok(0));
            assert_accounts(&pool, 1100 - nr);
            let is_free = |at| (first..first + nr).contains(&at);
            assert_merged(&pool, is_free);
            for rest in [0..first, first + nr..1100] {
                if !rest.is_empty() {
                    let freed = pool.free_contig_range_by(frame(rest.start), rest.len(), strategy);
                    assert_eq!(freed, Ok(0));
                }
            }
            assert_all_free(&pool);
        }
    }
}

fn a_pool_is_freed_in_one_call<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(4096);
        take_all_raw(&pool);
        assert_eq!(pool.free_contig_range_by(frame(0), 4096, strategy), Ok(0));
        assert_all_free(&pool);
        assert_eq!(pool.free_blocks().of_order(Order::MAX), 4);
        assert_eq!(pool.free_blocks().share_from(Order::MAX), Some(1.0));
    }
}

fn a_split_page_block_is_one_again_at_once<S: RefScheme>() {
    for strategy in [FreeRange::Chunked, FreeRange::Merged] {
        let pool = pool::<S>(2048);
        let others = take_all(&pool, Order::PAGE_BLOCK);
        let nr_others = others.len();
        drop(others.into_iter().next_back());
        let block = split_block(&pool, Order::PAGE_BLOCK);
        assert_eq!(nr_others, 4);
        let others = take_all(&pool, Order::PAGE_BLOCK);
        let before = nr_free_blocks(&pool)[Order::PAGE_BLOCK.index()];
        assert_eq!(pool.free_contig_range_by(block, 512, strategy), Ok(0));
        let after = nr_free_blocks(&pool)[Order::PAGE_BLOCK.index()];
        assert_eq!(after, before + 1, "{strategy:?}");
        let again = pool.alloc(Order::PAGE_BLOCK).unwrap();
        assert_eq!(again.frame(), block);
        pool.verify().unwrap();
        drop((again, others));
        assert_all_free(&pool);
    }
}

fn a_split_page_block_goes_through_the_front_cache<S: RefScheme>() {
    let pool = pool_with_large_front_caches::<S>();
    for strategy in STRATEGIES {
        let block = split_block(&pool, Order::PAGE_BLOCK);
        assert_eq!(pool.free_contig_range_by(block, 512, strategy), Ok(0));
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

fn a_merged_block_is_as_if_it_had_never_been_split<S: RefScheme>() {
    let pool = pool::<S>(1024);
    let kinds = || -> Vec<_> {
        let frames = (0..1024).map(|nr| pool.meta(frame(nr)).kind());
        frames.collect()
    };
    let fresh = kinds();
    for k in [3, 5, 9] {
        let first = split_block(&pool, order(k));
        let freed = pool.free_contig_range_by(first, 1 << k, FreeRange::Merged);
        assert_eq!(freed, Ok(0));
        assert_all_free(&pool);
        assert_eq!(kinds(), fresh);
    }
}

fn parts_of_several_blocks_are_one_range<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        // In ascending order: 0..16, 16..24, 24..32, 32..48.
        let blocks = [4, 3, 3, 4].map(|k| split_block(&pool, order(k)).index());
        assert_eq!(blocks, [0, 16, 24, 32]);
        assert_eq!(pool.free_contig_range_by(frame(5), 36, strategy), Ok(0));
        assert_merged(&pool, |at| (5..41).contains(&at) || at >= 48);
        assert_eq!(pool.free_contig_range_by(frame(0), 5, strategy), Ok(0));
        assert_eq!(pool.free_contig_range_by(frame(41), 7, strategy), Ok(0));
        assert_all_free(&pool);
    }
}

fn held_frames_are_counted_and_freed_by_their_last_put<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(512);
        let first = split_block(&pool, order(6)).index();
        let at = [0, 1, 17, 31, 32, 63];
        let held = at.map(|at| get(&pool, frame(first + at)));
        let more = at.map(|at| get(&pool, frame(first + at)));
        let freed = pool.free_contig_range_by(frame(first), 64, strategy);
        assert_eq!(freed, Ok(at.len()));
        assert_accounts(&pool, at.len());
        drop(held);
        assert_accounts(&pool, at.len());
        for (nr_put, reference) in more.into_iter().enumerate() {
            assert_accounts(&pool, at.len() - nr_put);
            let nr = reference.frame();
            // References to a frame that was given up are as good as others.
            drop(get(&pool, nr));
            drop(reference);
            assert_locked(&pool, nr);
        }
        assert_all_free(&pool);
    }
}

fn held_frames_are_one_by_one_the_only_ones_left<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        take_all_raw(&pool);
        for held in 0..64 {
            let reference = get(&pool, frame(held));
            assert_eq!(pool.free_contig_range_by(frame(0), 64, strategy), Ok(1));
            assert_merged(&pool, |at| at != held);
            drop(reference);
            assert_all_free(&pool);
            take_all_raw(&pool);
        }
    }
}

fn single_blocks_are_given_back_now_or_later<S: RefScheme>() {
    let pool = pool::<S>(64);
    for k in 0..=6 {
        let block = pool.alloc(order(k)).unwrap().into_raw();
        assert_eq!(pool.free(block, order(k)), Ok(Freed::Now));
        assert_all_free(&pool);
        let block = pool.alloc(order(k)).unwrap().into_raw();
        let held = [get(&pool, block), get(&pool, block)];
        assert_eq!(pool.free(block, order(k)), Ok(Freed::Later));
        assert_accounts(&pool, 1 << k);
        drop(held);
        assert_all_free(&pool);
    }
}

fn a_split_frame_is_free_at_once_where_nobody_holds_it<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(order(6)).unwrap().into_raw();
    assert_eq!(pool.split(block, order(6)), Ok(()));
    for nr in (0..64).rev() {
        assert_eq!(pool.free(frame(nr), Order::ZERO), Ok(Freed::Now));
        assert_accounts(&pool, nr);
    }
    assert_all_free(&pool);
}

fn a_range_is_cut_and_each_part_freed_by_itself<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
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
        assert_eq!(middle.free(strategy), Ok(0));
        assert_accounts(&pool, 63);
        drop(low);
        assert_accounts(&pool, 40);
        assert_eq!(high.free(strategy), Ok(0));
        assert_all_free(&pool);
    }
}

fn a_range_gives_references_to_its_own_frames_only<S: RefScheme>() {
    let pool = pool::<S>(64);
    take_all_raw(&pool);
    assert_eq!(pool.free_contig_range(frame(16), 16), Ok(0));
    let range = pool.alloc(order(4)).unwrap().split();
    let frames: Vec<FrameNr> = (0..16)
        .filter_map(|at| range.get(at))
        .map(|reference| reference.frame())
        .collect();
    assert_eq!(frames, (16..32).map(frame).collect::<Vec<_>>());
    for at in [16, 17, usize::MAX, (1 << 32) + 1] {
        assert!(range.get(at).is_none(), "{at}");
    }
    let reader = range.get(15).unwrap();
    assert_eq!(range.free(FreeRange::Chunked), Ok(1));
    drop(reader);
    assert_accounts(&pool, 48);
}

fn a_dropped_range_frees_what_was_not_freed_by_number<S: RefScheme>() {
    let pool = pool::<S>(64);
    for freed in [0..1, 3..9, 15..16, 0..16] {
        let range = pool.alloc(order(4)).unwrap().split();
        let first = range.first().index() + freed.start;
        assert_eq!(pool.free_contig_range(frame(first), freed.len()), Ok(0));
        drop(range);
        assert_all_free(&pool);
    }
}

fn a_range_freed_by_number_before_is_told<S: RefScheme>() {
    for strategy in STRATEGIES {
        let pool = pool::<S>(64);
        let range = pool.alloc(order(4)).unwrap().split();
        let nr = frame(range.first().index() + 5);
        assert_eq!(pool.free(nr, Order::ZERO), Ok(Freed::Now));
        let first = range.first();
        let error = range.free(strategy).unwrap_err();
        assert_eq!(
            (error.misuse, error.frame),
            (Misuse::NotAllocated, nr.get())
        );
        assert_eq!(pool.free_contig_range(first, 5), Ok(0));
        assert_eq!(pool.free_contig_range(frame(nr.index() + 1), 10), Ok(0));
        assert_all_free(&pool);
    }
}

fn a_range_has_the_bytes_of_its_block<S: RefScheme>() {
    let pool = pool::<S>(64);
    let block = pool.alloc(order(2)).unwrap();
    block.bytes().copy_from(0, &[7; 4 * FRAME_BYTES]);
    let mut range = block.split();
    let rest = range.split_off(3).unwrap();
    assert_eq!(range.bytes().len(), 3 * FRAME_BYTES);
    assert_eq!(rest.bytes().len(), FRAME_BYTES);
    let reader = rest.get(0).unwrap();
    // Of a frame that is owned by its number nobody relies on the bytes.
    reader.raw_bytes().unwrap().copy_from(0, &[9; FRAME_BYTES]);
    drop(reader);
    let mut bytes = [0; FRAME_BYTES];
    range.get(2).unwrap().bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [7; FRAME_BYTES]);
    rest.get(0).unwrap().bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [9; FRAME_BYTES]);
}

/// Where a thread marks each frame that it has, and others find the mark.
struct Stamps<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
}

impl<S: RefScheme> Stamps<'_, S> {
    fn read(&self, nr: FrameNr) -> u64 {
        let mut bytes = [0; 8];
        self.pool.bytes(nr, 8).copy_to(0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn write(&self, range: &FrameRange<'_, S>, stamp: u64) {
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

fn frames<S: RefScheme>(range: &FrameRange<'_, S>) -> impl Iterator<Item = FrameNr> {
    let first = range.first().get();
    (first..first + range.len() as u32).map(FrameNr::new)
}

/// A reference that was lent to whoever takes it, and the stamp that its frame keeps meanwhile.
type Lent<'p, S> = Mutex<Vec<(FrameRef<'p, S>, u64)>>;

/// Each thread stamps its ranges, lends references, frees in every way, and puts what others have lent; a
/// frame that is handed out twice, or too early, has the wrong stamp.
fn threads_share_ranges_and_lose_nothing<S: RefScheme>() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 1500;
    let pool = pool_in::<S>(512, 2);
    let lent: Lent<'_, S> = Mutex::new(Vec::new());
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

fn share_a_range<'p, S: RefScheme>(
    pool: &'p FramePool<S>,
    stamp: u64,
    numbers: &mut Numbers,
    held: &mut Vec<(FrameRange<'p, S>, u64)>,
    lent: &Lent<'p, S>,
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
                let (first, nr) = range.into_raw();
                for nr in first.get()..first.get() + nr as u32 {
                    assert!(pool.free(FrameNr::new(nr), Order::ZERO).is_ok());
                }
            }
            strategy => assert!(range.free(STRATEGIES[strategy]).is_ok()),
        }
    }
}
