//! Behaviour of the frame pool: allocating and freeing in every order,
//! splitting and merging, exhaustion, nodes and front caches, the life of a published frame; and random
//! histories against a naive allocator.

#![cfg(not(loom))]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use pagewell_frame::{
    FRAME_BYTES, FrameKind, FrameNr, FramePool, FrameRef, HugePages, MAX_FRAMES, Nodes, Order,
    PoolConfig, PoolError, TryGetFrame, UniqueFrame,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

fn pool_in(nr_frames: usize, nr_nodes: usize) -> FramePool {
    FramePool::new(&PoolConfig {
        nr_frames,
        huge_pages: HugePages::Never,
        nodes: Nodes::Unbound(nr_nodes),
    })
    .expect("a small pool")
}

fn pool(nr_frames: usize) -> FramePool {
    pool_in(nr_frames, 1)
}

fn order(order: u8) -> Order {
    Order::new(order).expect("a legal order")
}

/// Checks that the pool is in order and all of it free.
#[track_caller]
fn assert_all_free(pool: &FramePool) {
    pool.verify().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.nr_available(), stats.nr_frames);
}

/// Publishes a block of `pool` with one reference, which is the result.
fn publish_as<'p>(
    pool: &'p FramePool,
    unique: UniqueFrame<'p>,
    kind: FrameKind,
    owner: (u64, u64),
) -> FrameRef<'p> {
    // SAFETY: (K) nobody but the test uses the pool.
    let frame = unsafe { unique.publish(kind, owner, 1) };
    // SAFETY: (A) the frame was published with one reference, which is handed out here and only here.
    unsafe { FrameRef::from_raw(pool, frame) }
}

fn publish<'p>(pool: &'p FramePool, unique: UniqueFrame<'p>) -> FrameRef<'p> {
    publish_as(pool, unique, FrameKind::Page, (0, 0))
}

/// Takes a reference, which there must be.
#[track_caller]
fn get(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    match pool.try_get(frame) {
        TryGetFrame::Taken(reference) => reference,
        other => panic!("no reference to {frame:?}: {other:?}"),
    }
}

#[track_caller]
fn assert_locked(pool: &FramePool, frame: FrameNr) {
    assert!(matches!(pool.try_get(frame), TryGetFrame::Locked));
}

/// All blocks of `order` that can be had.
fn take_all(pool: &FramePool, order: Order) -> Vec<UniqueFrame<'_>> {
    std::iter::from_fn(|| pool.alloc(order)).collect()
}

#[test]
fn every_frame_can_be_had_once_and_again_after_it_was_freed() {
    for nr_frames in [1, 2, 3, 16, 64, 100, 1000] {
        let pool = pool(nr_frames);
        for _ in 0..3 {
            let all = take_all(&pool, Order::ZERO);
            let numbers: BTreeSet<FrameNr> = all.iter().map(UniqueFrame::frame).collect();
            assert_eq!(numbers.len(), nr_frames);
            assert!(numbers.iter().all(|frame| frame.index() < nr_frames));
            assert_eq!(pool.stats().nr_available(), 0);
            assert!(pool.alloc(Order::ZERO).is_none());
            pool.verify().unwrap();
            drop(all);
            assert_all_free(&pool);
        }
    }
}

#[test]
fn blocks_of_every_order_are_aligned_and_apart() {
    let pool = pool(4096);
    for k in 0..=Order::MAX.get() {
        let all = take_all(&pool, order(k));
        assert_eq!(all.len(), 4096 >> k, "order {k}");
        let starts: BTreeSet<usize> = all.iter().map(|block| block.frame().index()).collect();
        assert_eq!(starts.len(), all.len());
        assert!(starts.iter().all(|start| start.is_multiple_of(1 << k)));
        assert!(all.iter().all(|block| block.order() == order(k)));
        drop(all);
        assert_all_free(&pool);
    }
}

#[test]
fn split_blocks_merge_again_in_whatever_order_they_are_freed() {
    let pool = pool(16);
    // Every order in which the four quarters can be freed.
    for permutation in 0..24 {
        let mut quarters: Vec<_> = take_all(&pool, order(2));
        assert_eq!(quarters.len(), 4);
        let mut left = permutation;
        for nr in (1..=4).rev() {
            drop(quarters.remove(left % nr));
            left /= nr;
            pool.verify().unwrap();
        }
        let whole = pool.alloc(order(4)).expect("one block again");
        assert_eq!(whole.frame().index(), 0);
    }
    // And a block among neighbours that stay.
    let mut quarters = take_all(&pool, order(2));
    for _ in 0..4 {
        let freed = quarters.remove(0).frame();
        let halves = [(); 2].map(|()| pool.alloc(order(1)).expect("half of what was freed"));
        let starts = halves.each_ref().map(|half| half.frame().get() & !2);
        assert_eq!(starts, [freed.get(); 2]);
        assert!(pool.alloc(Order::ZERO).is_none());
        drop(halves);
        let again = pool.alloc(order(2)).expect("both halves, merged");
        assert_eq!(again.frame(), freed);
        quarters.push(again);
        pool.verify().unwrap();
    }
    drop(quarters);
    assert_all_free(&pool);
}

#[test]
fn what_is_left_over_at_odd_ends_is_used_too() {
    // 1000 is 512 + 256 + 128 + 64 + 32 + 8.
    let pool = pool(1000);
    let blocks = [9, 8, 7, 6, 5, 3].map(|k| pool.alloc(order(k)).expect("a block of the sum"));
    assert_eq!(pool.stats().nr_available(), 0);
    assert!(pool.alloc(Order::ZERO).is_none());
    drop(blocks);
    assert_all_free(&pool);
    assert!(pool.alloc(Order::MAX).is_none(), "larger than the pool");
}

#[test]
fn a_pool_without_a_large_enough_block_gives_none_and_stays_whole() {
    let pool = pool(64);
    let frames = take_all(&pool, Order::ZERO);
    // Every other frame: half of the pool is free, and no two frames of it together.
    let (kept, freed): (Vec<_>, Vec<_>) = frames
        .into_iter()
        .partition(|frame| frame.frame().get() % 2 == 0);
    drop(freed);
    assert_eq!(pool.stats().nr_available(), 32);
    for k in 1..=6 {
        assert!(pool.alloc(order(k)).is_none());
        pool.verify().unwrap();
    }
    assert_eq!(take_all(&pool, Order::ZERO).len(), 32);
    drop(kept);
    assert_eq!(
        pool.alloc(order(6)).map(|block| block.frame().get()),
        Some(0)
    );
    assert_all_free(&pool);
}

#[test]
fn other_nodes_help_out_and_blocks_never_span_two() {
    for (nr_frames, nr_nodes) in [(3, 3), (96, 3), (100, 3), (64, 64), (130, 7)] {
        let pool = pool_in(nr_frames, nr_nodes);
        assert_eq!(pool.nr_nodes(), nr_nodes);
        let all = take_all(&pool, Order::ZERO);
        assert_eq!(all.len(), nr_frames, "all nodes are used");
        drop(all);
        let borders: Vec<usize> = (1..nr_nodes).map(|i| nr_frames * i / nr_nodes).collect();
        for k in 0..=5 {
            let blocks = take_all(&pool, order(k));
            for block in &blocks {
                let start = block.frame().index();
                let end = start + (1 << k);
                assert!(
                    !borders
                        .iter()
                        .any(|border| (start + 1..end).contains(border)),
                    "{start}..{end} of {borders:?}"
                );
            }
            drop(blocks);
            assert_all_free(&pool);
        }
    }
}

#[test]
fn front_caches_give_up_their_frames_for_larger_blocks() {
    let pool = pool(1024);
    drop(pool.alloc(Order::ZERO));
    assert_all_free(&pool);
    let whole = pool.alloc(Order::MAX).expect("all of it, merged");
    assert_eq!(pool.stats().nr_available(), 0);
    assert_eq!(pool.drain_front_caches(), 0);
    drop(whole);
    drop(take_all(&pool, Order::ZERO));
    assert!(
        pool.drain_front_caches() > 0,
        "freed frames are kept at hand"
    );
    assert_eq!(pool.drain_front_caches(), 0);
    assert_all_free(&pool);
}

#[test]
fn frames_in_front_caches_of_other_threads_are_found() {
    let pool = pool(1024);
    for _ in 0..4 {
        // Each thread leaves what it has freed in a cache of its own.
        thread::scope(|scope| {
            scope.spawn(|| drop(take_all(&pool, Order::ZERO)));
        });
        assert_all_free(&pool);
        assert_eq!(take_all(&pool, Order::ZERO).len(), 1024);
        assert!(pool.alloc(Order::MAX).is_some());
    }
}

#[test]
fn only_published_frames_give_references() {
    let pool = pool(64);
    for beyond in [pool.nr_frames() as u32, MAX_FRAMES as u32] {
        assert_locked(&pool, FrameNr::new(beyond));
    }
    let all = (0..64).map(FrameNr::new);
    all.clone().for_each(|frame| assert_locked(&pool, frame));
    let unique = pool.alloc(order(2)).unwrap();
    let head = unique.frame();
    all.clone().for_each(|frame| assert_locked(&pool, frame));

    let reference = publish(&pool, unique);
    for frame in all.clone() {
        if frame == head {
            drop(get(&pool, frame));
        } else {
            assert_locked(&pool, frame);
        }
    }
    drop(reference);
    all.for_each(|frame| assert_locked(&pool, frame));
    assert_all_free(&pool);
}

#[test]
fn a_published_block_is_freed_by_whoever_drops_last() {
    let pool = pool(64);
    for k in [0, 1, 4] {
        let first = publish(&pool, pool.alloc(order(k)).unwrap());
        let frame = first.frame();
        let more = [get(&pool, frame), get(&pool, frame), get(&pool, frame)];
        assert_eq!(first.meta().count(), 4);
        drop(first);
        for reference in more {
            assert_eq!(pool.stats().nr_available(), 64 - (1 << k));
            pool.verify().unwrap();
            drop(reference);
        }
        assert_all_free(&pool);
        assert_locked(&pool, frame);
    }
}

#[test]
fn two_references_are_given_back_at_once_or_one_by_one() {
    let pool = pool(64);
    let [first, other] = [0, 0].map(|k| publish(&pool, pool.alloc(order(k)).unwrap()));
    let (number, others) = (first.frame(), other.frame());
    let kept = get(&pool, number);
    first.drop_with(get(&pool, number));
    assert_eq!(pool.meta(number).count(), 1);
    // Of two blocks: each by itself.
    get(&pool, number).drop_with(other);
    assert_eq!(pool.meta(number).count(), 1);
    assert_locked(&pool, others);
    // The last two free the block.
    kept.drop_with(get(&pool, number));
    assert_all_free(&pool);
}

#[test]
fn a_frame_is_made_unique_only_by_its_only_reference() {
    let pool = pool(16);
    let first = publish(&pool, pool.alloc(order(1)).unwrap());
    let frame = first.frame();
    let second = get(&pool, frame);
    let first = first.try_unique().expect_err("there are two");
    assert_eq!(first.meta().count(), 2);
    drop(second);
    let unique = first.try_unique().expect("the only one");
    assert_eq!((unique.frame(), unique.order()), (frame, order(1)));
    assert_locked(&pool, frame);

    // Unique, it can be published again, as something else.
    let again = publish_as(&pool, unique, FrameKind::Leaf, (3, 4));
    assert_eq!(again.meta().kind(), (FrameKind::Leaf, order(1)));
    let second = get(&pool, frame);
    // SAFETY: (A) both references are this test's, and `second` is forgotten, not dropped.
    let frozen = unsafe { again.freeze(2) }.expect("exactly two");
    second.into_raw();
    drop(frozen);
    assert_all_free(&pool);
}

#[test]
fn a_stray_reference_frees_what_it_was_the_last_to_hold() {
    let pool = pool(16);
    let first = publish_as(
        &pool,
        pool.alloc(Order::ZERO).unwrap(),
        FrameKind::Page,
        (1, 1),
    );
    let frame = first.frame();
    drop(first);
    // Somebody who looks for the old page comes late, and meets the frame's next life.
    let mut second = pool.alloc(Order::ZERO).unwrap();
    let mut spare = Vec::new();
    while second.frame() != frame {
        spare.push(second);
        second = pool.alloc(Order::ZERO).expect("the frame was freed");
    }
    assert_locked(&pool, frame);
    let second = publish_as(&pool, second, FrameKind::Page, (2, 2));
    let stray = get(&pool, frame);
    assert_eq!(
        stray.meta().owner(),
        (2, 2),
        "that is how the late one notices"
    );
    let second = second.try_unique().expect_err("the stray one is there");
    drop(second);
    assert_eq!(
        pool.stats().nr_available(),
        16 - 1 - spare.len(),
        "it is the stray one's now"
    );
    drop(stray);
    drop(spare);
    assert_all_free(&pool);
}

#[test]
fn records_keep_kind_order_and_owner_while_a_reference_exists() {
    let pool = pool(64);
    let mut blocks = Vec::new();
    for (nr, kind) in [FrameKind::Page, FrameKind::Leaf]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let owner = (u64::MAX - nr as u64, nr as u64);
        let unique = pool.alloc(order(nr as u8 % 3)).unwrap();
        assert_eq!(pool.meta(unique.frame()).kind().0, FrameKind::Owned);
        blocks.push((
            publish_as(&pool, unique, kind, owner),
            kind,
            nr as u8 % 3,
            owner,
        ));
    }
    drop(take_all(&pool, Order::ZERO));
    for (block, kind, k, owner) in &blocks {
        assert_eq!(block.meta().kind(), (*kind, order(*k)));
        assert_eq!(block.meta().owner(), *owner);
        assert!(std::ptr::eq(block.pool(), &raw const pool));
    }
    drop(blocks);
    assert_all_free(&pool);
}

#[test]
fn bytes_are_the_blocks_own_and_zero_at_first() {
    let pool = pool(32);
    let blocks = take_all(&pool, order(1));
    let mut bytes = vec![0xEE; 2 * FRAME_BYTES];
    for (nr, block) in blocks.iter().enumerate() {
        let memory = block.bytes();
        assert_eq!(memory.len(), 2 * FRAME_BYTES);
        memory.copy_to(0, &mut bytes);
        assert!(bytes.iter().all(|&b| b == 0), "new memory");
        memory.copy_from(0, &vec![nr as u8 + 1; 2 * FRAME_BYTES]);
    }
    for (nr, block) in blocks.into_iter().enumerate() {
        let start = block.frame();
        let reference = publish(&pool, block);
        reference.bytes().copy_to(0, &mut bytes);
        assert!(bytes.iter().all(|&b| b == nr as u8 + 1), "{start:?}");
        // SAFETY: (A) the block has two frames; (B) nobody writes it here.
        let slice = unsafe { reference.slice(2 * FRAME_BYTES) };
        assert_eq!(*slice, *bytes);
        pool.bytes(start, 16).copy_to(0, &mut bytes[..16]);
        assert_eq!(bytes[..16], [nr as u8 + 1; 16]);
    }
}

#[test]
fn a_discarded_block_reads_as_zeros_and_stays_allocated() {
    let pool = pool(16);
    let block = pool.alloc(order(1)).unwrap();
    let neighbour = pool.alloc(order(1)).unwrap();
    for block in [&block, &neighbour] {
        block.bytes().copy_from(0, &[7; 2 * FRAME_BYTES]);
    }
    block.discard();
    let mut bytes = [1; 2 * FRAME_BYTES];
    block.bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [0; 2 * FRAME_BYTES]);
    neighbour.bytes().copy_to(0, &mut bytes);
    assert_eq!(bytes, [7; 2 * FRAME_BYTES]);
    assert_eq!(pool.stats().nr_available(), 12);
}

#[test]
fn a_withheld_frame_is_neither_free_nor_lost() {
    let pool = pool(16);
    let withheld = pool.alloc(order(2)).unwrap().into_withheld();
    assert_eq!(pool.stats().nr_available(), 12);
    assert_locked(&pool, withheld);
    pool.verify().unwrap();
    assert_eq!(take_all(&pool, Order::ZERO).len(), 12);
    // SAFETY: (A) the number is from above and used once.
    let unique = unsafe { UniqueFrame::from_withheld(&pool, withheld) };
    assert_eq!((unique.frame(), unique.order()), (withheld, order(2)));
    drop(unique);
    assert_all_free(&pool);
}

/// One step of a history; what is held is named by a number modulo how much is held.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u8),
    Free(usize),
    Publish(usize),
    Get(usize),
    GetAny(u32),
    Put(usize),
    Unique(usize),
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = any::<usize>;
    let step = prop_oneof![
        8 => prop_oneof![3 => Just(0), 2 => 0..4_u8, 1 => 0..=Order::MAX.get()]
            .prop_map(Step::Alloc),
        5 => which().prop_map(Step::Free),
        3 => which().prop_map(Step::Publish),
        2 => which().prop_map(Step::Get),
        1 => any::<u32>().prop_map(Step::GetAny),
        4 => which().prop_map(Step::Put),
        2 => which().prop_map(Step::Unique),
        1 => Just(Step::Drain),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Which frames are in use, frame by frame.
struct Naive {
    borders: Vec<usize>,
    used: Vec<bool>,
}

impl Naive {
    fn new(nr_frames: usize, nr_nodes: usize) -> Self {
        Self {
            borders: (0..=nr_nodes).map(|i| nr_frames * i / nr_nodes).collect(),
            used: vec![false; nr_frames],
        }
    }

    /// Whether some node has a free, aligned block of this order.
    fn has(&self, order: Order) -> bool {
        let len = order.frames() as usize;
        self.borders.windows(2).any(|node| {
            (node[0].next_multiple_of(len)..node[1])
                .step_by(len)
                .any(|start| {
                    start + len <= node[1] && !self.used[start..start + len].contains(&true)
                })
        })
    }

    fn set(&mut self, frame: FrameNr, order: Order, to: bool) -> Result<(), TestCaseError> {
        let start = frame.index();
        prop_assert!(start.is_multiple_of(order.frames() as usize));
        let end = start + order.frames() as usize;
        prop_assert!(end <= self.used.len());
        let node = self
            .borders
            .windows(2)
            .find(|node| node[0] <= start && start < node[1]);
        prop_assert!(node.is_some_and(|node| end <= node[1]), "within a node");
        for used in &mut self.used[start..end] {
            prop_assert_ne!(*used, to);
            *used = to;
        }
        Ok(())
    }

    fn nr_free(&self) -> usize {
        self.used.iter().filter(|used| !**used).count()
    }
}

fn run_history(nr_frames: usize, nr_nodes: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let pool = pool_in(nr_frames, nr_nodes);
    let mut naive = Naive::new(nr_frames, nr_nodes);
    let mut uniques: Vec<UniqueFrame<'_>> = Vec::new();
    let mut references: Vec<FrameRef<'_>> = Vec::new();
    let mut counts: BTreeMap<FrameNr, u32> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Alloc(k) => {
                let expected = naive.has(order(k));
                let got = pool.alloc(order(k));
                prop_assert_eq!(got.is_some(), expected, "a block of order {}", k);
                if let Some(unique) = got {
                    naive.set(unique.frame(), order(k), true)?;
                    uniques.push(unique);
                }
            }
            Step::Free(nr) if !uniques.is_empty() => {
                let unique = uniques.swap_remove(nr % uniques.len());
                naive.set(unique.frame(), unique.order(), false)?;
            }
            Step::Publish(nr) if !uniques.is_empty() => {
                let unique = uniques.swap_remove(nr % uniques.len());
                counts.insert(unique.frame(), 1);
                references.push(publish(&pool, unique));
            }
            Step::Get(nr) if !references.is_empty() => {
                let frame = references[nr % references.len()].frame();
                references.push(get(&pool, frame));
                *counts.entry(frame).or_default() += 1;
            }
            Step::GetAny(nr) => {
                let frame = FrameNr::new(nr % nr_frames as u32);
                match pool.try_get(frame) {
                    TryGetFrame::Taken(reference) => {
                        prop_assert!(counts.contains_key(&frame));
                        drop(reference);
                    }
                    TryGetFrame::Locked => prop_assert!(!counts.contains_key(&frame)),
                    TryGetFrame::Saturated => prop_assert!(false, "saturated"),
                }
            }
            Step::Put(nr) if !references.is_empty() => {
                let reference = references.swap_remove(nr % references.len());
                let (frame, (_, order)) = (reference.frame(), reference.meta().kind());
                drop(reference);
                let count = counts.entry(frame).or_default();
                *count -= 1;
                if *count == 0 {
                    counts.remove(&frame);
                    naive.set(frame, order, false)?;
                }
            }
            Step::Unique(nr) if !references.is_empty() => {
                let reference = references.swap_remove(nr % references.len());
                let frame = reference.frame();
                match reference.try_unique() {
                    Ok(unique) => {
                        prop_assert_eq!(counts.remove(&frame), Some(1));
                        uniques.push(unique);
                    }
                    Err(reference) => {
                        prop_assert!(counts.get(&frame).is_some_and(|count| *count > 1));
                        references.push(reference);
                    }
                }
            }
            Step::Drain => {
                pool.drain_front_caches();
            }
            // Nothing of the kind is held.
            _ => {}
        }
        prop_assert_eq!(pool.stats().nr_available(), naive.nr_free());
        pool.verify().map_err(TestCaseError::fail)?;
    }
    for (frame, count) in &counts {
        prop_assert_eq!(pool.meta(*frame).count(), *count);
    }
    drop(uniques);
    drop(references);
    prop_assert_eq!(pool.stats().nr_available(), nr_frames);
    pool.verify().map_err(TestCaseError::fail)
}

#[test]
fn histories_agree_with_a_naive_allocator() {
    let config = Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = (1..200_usize, 1..=4_usize, steps());
    let result = TestRunner::new(config).run(&histories, |(nr_frames, nr_nodes, steps)| {
        run_history(nr_frames, nr_nodes.min(nr_frames), &steps)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn threads_never_share_a_frame_and_lose_none() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 3000;
    let pool = pool_in(64, 2);
    let owners: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for me in 1..=THREADS {
            let (pool, owners, barrier) = (&pool, &owners, &barrier);
            scope.spawn(move || {
                let frames = |block: &UniqueFrame<'_>| {
                    let start = block.frame().index();
                    start..start + block.order().frames() as usize
                };
                let mut held: Vec<UniqueFrame<'_>> = Vec::new();
                let mut state = me;
                barrier.wait();
                for _ in 0..ROUNDS {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let k = [0, 0, 0, 0, 1, 2, 3][(state >> 16) as usize % 7];
                    if held.len() < 12
                        && let Some(block) = pool.alloc(order(k))
                    {
                        for frame in frames(&block) {
                            assert_eq!(owners[frame].swap(me, Ordering::Relaxed), 0);
                        }
                        held.push(block);
                    } else if !held.is_empty() {
                        let block = held.swap_remove((state >> 8) as usize % held.len());
                        for frame in frames(&block) {
                            assert_eq!(owners[frame].swap(0, Ordering::Relaxed), me);
                        }
                        // Some are freed as they are, some by way of a reference that others try for.
                        if state & 1 == 0 {
                            drop(block);
                        } else {
                            drop(publish(pool, block));
                        }
                    }
                    // Late tries for any frame: whatever they catch they let go of.
                    let any = FrameNr::new((state >> 20) % 64);
                    if let TryGetFrame::Taken(stray) = pool.try_get(any) {
                        drop(stray.try_unique());
                    }
                }
                for block in held {
                    for frame in frames(&block) {
                        assert_eq!(owners[frame].swap(0, Ordering::Relaxed), me);
                    }
                }
            });
        }
    });
    assert_all_free(&pool);
    for k in 0..=5 {
        assert_eq!(take_all(&pool, order(k)).len(), 64 >> k, "all merged");
    }
}

#[test]
fn pools_of_impossible_sizes_are_refused() {
    let new = |nr_frames, nodes| {
        FramePool::new(&PoolConfig {
            nr_frames,
            huge_pages: HugePages::System,
            nodes,
        })
    };
    for nr_frames in [0, MAX_FRAMES + 1, usize::MAX] {
        let error = new(nr_frames, Nodes::Machine).unwrap_err();
        assert!(matches!(error, PoolError::FrameCount { nr } if nr == nr_frames));
        assert!(
            error.to_string().contains(&nr_frames.to_string()),
            "{error}"
        );
    }
    for nr_nodes in [0, 65, usize::MAX] {
        let error = new(1000, Nodes::Unbound(nr_nodes)).unwrap_err();
        assert!(matches!(error, PoolError::NodeCount { nr } if nr == nr_nodes));
        assert!(error.to_string().contains(&nr_nodes.to_string()), "{error}");
    }
    let error = new(2, Nodes::Unbound(3)).unwrap_err();
    assert!(matches!(error, PoolError::FrameCount { nr: 2 }));
    assert!(new(3, Nodes::Unbound(3)).is_ok());
}

#[test]
fn every_setting_of_huge_pages_gives_a_pool_that_works() {
    for huge_pages in [HugePages::System, HugePages::Advise, HugePages::Never] {
        let pool = FramePool::new(&PoolConfig {
            huge_pages,
            ..PoolConfig::new(1024)
        })
        .unwrap();
        let block = pool.alloc(Order::MAX).unwrap();
        block.bytes().copy_from(0, &[1; 5000]);
        let mut bytes = [0; 5001];
        block.bytes().copy_to(0, &mut bytes);
        assert!(bytes[..5000].iter().all(|&b| b == 1) && bytes[5000] == 0);
        assert_eq!(
            block.bytes().as_ptr().addr() % (4 << 20),
            0,
            "huge pages fit"
        );
    }
}

#[test]
fn frames_that_the_pool_does_not_have_are_a_callers_bug() {
    let pool = pool(16);
    let outside = FrameNr::new(16);
    for call in [
        (|pool, frame| assert_ne!(pool.meta(frame).kind().0, FrameKind::Page))
            as fn(&FramePool, FrameNr),
        |pool, frame| assert!(pool.bytes(frame, 1).len() == 1),
    ] {
        let call = std::panic::AssertUnwindSafe(|| call(&pool, outside));
        assert!(std::panic::catch_unwind(call).is_err());
    }
    assert_eq!(pool.bytes(FrameNr::new(15), FRAME_BYTES).len(), FRAME_BYTES);
}
