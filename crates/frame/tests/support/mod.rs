//! What the tests of the pool have in common: pools, blocks, and what must hold when all is given back.

#![allow(dead_code, unused_imports)] // Each test file uses a part of it.

use pagewell_frame::{
    FrameNr, FramePool, FrameRange, FrameRef, FreeRange, HugePages, Nodes, Order, PoolConfig,
    TryGetFrame, UniqueFrame,
};

/// All ways to free a range.
pub(crate) const STRATEGIES: [FreeRange; 3] =
    [FreeRange::OneByOne, FreeRange::Chunked, FreeRange::Merged];

/// The configuration of a pool with nodes that are bound to nothing.
pub(crate) fn config(nr_frames: usize, nr_nodes: usize) -> PoolConfig {
    PoolConfig {
        huge_pages: HugePages::Never,
        nodes: Nodes::Unbound(nr_nodes),
        ..PoolConfig::new(nr_frames)
    }
}

pub(crate) fn pool_in(nr_frames: usize, nr_nodes: usize) -> FramePool {
    FramePool::new(&config(nr_frames, nr_nodes)).expect("a small pool")
}

pub(crate) fn pool(nr_frames: usize) -> FramePool {
    pool_in(nr_frames, 1)
}

/// How many threads have a front cache.
pub(crate) fn nr_front_caches() -> usize {
    let nr_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (4 * nr_cpus).clamp(16, 512)
}

/// A pool in which a thread's front cache has room for eight frames.
pub(crate) fn pool_with_front_caches() -> FramePool {
    pool(8 * 8 * nr_front_caches())
}

/// A pool in which a thread's front cache has room for blocks of every order that it has stacks for.
pub(crate) fn pool_with_large_front_caches() -> FramePool {
    pool(8 * 2048 * nr_front_caches())
}

pub(crate) fn order(order: u8) -> Order {
    Order::new(order).expect("a legal order")
}

pub(crate) fn frame(nr: usize) -> FrameNr {
    FrameNr::new(nr as u32)
}

/// All blocks of `order` that can be had.
pub(crate) fn take_all(pool: &FramePool, order: Order) -> Vec<UniqueFrame<'_>> {
    std::iter::from_fn(|| pool.alloc(order)).collect()
}

/// Allocates a block and splits it.
#[track_caller]
pub(crate) fn split_block(pool: &FramePool, order: Order) -> FrameRange<'_> {
    pool.alloc(order).expect("a free block").split()
}

/// Takes all frames of a pool, in the largest blocks that there are, and splits these; in ascending order.
pub(crate) fn take_all_split(pool: &FramePool) -> Vec<FrameRange<'_>> {
    let orders = (0..=Order::MAX.get()).rev().map(order);
    let blocks = orders.flat_map(|order| take_all(pool, order));
    let mut ranges: Vec<_> = blocks.map(UniqueFrame::split).collect();
    ranges.sort_unstable_by_key(FrameRange::first);
    assert_eq!(pool.stats().nr_allocated, pool.nr_frames());
    ranges
}

/// Takes a reference, which there must be.
#[track_caller]
pub(crate) fn get(pool: &FramePool, frame: FrameNr) -> FrameRef<'_> {
    match pool.try_get(frame) {
        TryGetFrame::Taken(reference) => reference,
        other => panic!("no reference to {frame:?}: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_locked(pool: &FramePool, frame: FrameNr) {
    assert!(matches!(pool.try_get(frame), TryGetFrame::Locked));
}

/// Checks that the pool is in order, and how many of its frames are allocated.
#[track_caller]
pub(crate) fn assert_accounts(pool: &FramePool, nr_allocated: usize) {
    pool.verify().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.nr_allocated, stats.nr_available()),
        (nr_allocated, pool.nr_frames() - nr_allocated),
        "allocated, available"
    );
}

/// Checks that everything is free, and merged as far as it can be.
#[track_caller]
pub(crate) fn assert_all_free(pool: &FramePool) {
    assert_accounts(pool, 0);
    pool.drain_front_caches();
    pool.verify().unwrap();
    assert_eq!(nr_free_blocks(pool), maximal_blocks(pool, |_| true));
}

/// How many free blocks of each order are on the lists.
pub(crate) fn nr_free_blocks(pool: &FramePool) -> [usize; Order::COUNT] {
    let blocks = pool.free_blocks();
    std::array::from_fn(|k| blocks.of_order(order(k as u8)))
}

/// How many of each order there are of the largest blocks that the free frames make.
pub(crate) fn maximal_blocks(
    pool: &FramePool,
    is_free: impl Fn(usize) -> bool,
) -> [usize; Order::COUNT] {
    let mut nr = [0; Order::COUNT];
    let mut at = 0;
    while at < pool.nr_frames() {
        let largest = (0..=Order::MAX.get()).rev().map(order).find(|order| {
            pool.may_be_block(frame(at), *order) && (at..at + order.frames() as usize).all(&is_free)
        });
        if let Some(order) = largest {
            nr[order.index()] += 1;
        }
        at += largest.map_or(1, |order| order.frames() as usize);
    }
    nr
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // xorshift64 (Marsaglia, 2003); the high bits are the better ones.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }
}
