//! Tests of the whole pool that need more than the interface of its handles.

use super::{FramePool, UniqueFrame};
use crate::alloc::testing::HOME;
use crate::memory::{HugePages, Nodes, PoolConfig};
use crate::words::{FrameNr, Order};

#[test]
fn a_frame_is_among_those_of_its_node() {
    let config = PoolConfig {
        nodes: Nodes::Unbound(3),
        ..PoolConfig::new(100)
    };
    let pool: FramePool = FramePool::new(&config).unwrap();
    for nr in 0..100 {
        let node = pool.node_of(FrameNr::new(nr)).unwrap();
        for other in 0..4 {
            assert_eq!(pool.frames_of(other).contains(&nr), other == node);
        }
    }
}

/// Regression: a thread that had moved spilled cached blocks of its previous node to the new one.
#[test]
fn a_thread_that_moves_to_another_node_leaves_its_cached_blocks_behind() {
    let pool: FramePool = FramePool::new(&PoolConfig {
        nodes: Nodes::Unbound(2),
        ..PoolConfig::new(1 << 16)
    })
    .unwrap();
    let orders = [Order::ZERO, Order::new(1).unwrap(), Order::new(3).unwrap()];
    for home in [0, 1, 0, 1, 1, 0] {
        HOME.set(Some(home));
        for order in orders {
            let blocks: Vec<_> = (0..200).filter_map(|_| pool.alloc(order)).collect();
            assert_eq!(blocks.len(), 200);
            drop(blocks);
            pool.verify().unwrap();
        }
    }
    pool.drain_front_caches();
    assert_eq!(pool.stats().nr_free, 1 << 16);
    pool.verify().unwrap();
}

fn pool(nr_frames: usize, nr_nodes: usize) -> FramePool {
    FramePool::new(&PoolConfig {
        nr_frames,
        huge_pages: HugePages::System,
        nodes: Nodes::Unbound(nr_nodes),
    })
    .unwrap()
}

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// Regression: a file with pages of 64 KiB could be opened in a cache of 80 frames in eight nodes,
/// which has no block of that size. The check counted frames instead of blocks within nodes.
#[test]
fn blocks_are_counted_node_by_node() {
    assert_eq!(pool(80, 8).nr_blocks(Order::ZERO), 80);
    assert_eq!(pool(80, 8).nr_blocks(order(1)), 40);
    // Each node has ten frames: 0..10, 10..20 and so on. Four nodes contain a block of eight
    // aligned frames: 0..8 in 0..10, 32..40 in 30..40, 40..48 in 40..50 and 72..80 in 70..80.
    assert_eq!(pool(80, 8).nr_blocks(order(3)), 4);
    assert_eq!(pool(80, 8).nr_blocks(order(4)), 0);
    assert_eq!(pool(80, 1).nr_blocks(order(4)), 5);
    for (nr_frames, nr_nodes) in [(80, 8), (80, 1), (131, 3)] {
        let pool = pool(nr_frames, nr_nodes);
        for k in 0..=5 {
            let starts = (0..nr_frames as u32)
                .filter(|nr| pool.may_be_block(FrameNr::new(*nr), order(k)))
                .count();
            assert_eq!(starts, pool.nr_blocks(order(k)));
            let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(order(k))).collect();
            assert_eq!(blocks.len(), starts, "order {k} of {pool:?}");
        }
    }
}

#[test]
fn parts_of_a_block_become_the_block() {
    let pool = pool(64, 1);
    let mut all: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
    all.sort_by_key(UniqueFrame::frame);
    let mut held = all.split_off(20);
    let rest = held.split_off(2);
    // Frames 0 to 19 are free, in caches or in the node; 20 and 21 are held.
    drop(all);
    let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
    assert_eq!(
        parts.iter().map(|part| part.order().frames()).sum::<u32>(),
        4
    );
    parts.append(&mut held);
    // Two frames are missing, so `join` frees the parts, which merge.
    assert!(pool.join(parts, order(3)).is_none());
    assert_eq!(pool.stats().nr_available(), 22);
    pool.verify().unwrap();

    let mut parts = pool.take_free_within(FrameNr::new(16), order(3));
    let mut rest = rest.into_iter();
    parts.extend(rest.by_ref().take(2));
    let block = pool.join(parts, order(3)).unwrap();
    assert_eq!((block.frame().get(), block.order()), (16, order(3)));
    pool.verify().unwrap();
    drop(block);
    drop(rest);
    pool.verify().unwrap();
    assert_eq!(pool.stats().nr_available(), 64);
}

#[test]
fn the_rest_of_a_larger_block_is_freed() {
    let pool = pool(64, 1);
    let large = pool.alloc(order(5)).unwrap();
    let first = large.frame();
    let small = pool.join(vec![large], order(1)).unwrap();
    assert_eq!((small.frame(), small.order()), (first, order(1)));
    assert_eq!(pool.stats().nr_available(), 62);
    pool.verify().unwrap();
    drop(small);
    assert!(pool.alloc(order(5)).is_some());
    assert_eq!(pool.stats().nr_available(), 64);
    pool.verify().unwrap();
}

#[test]
fn a_block_is_split_into_frames_that_are_freed_one_by_one() {
    let pool = pool(64, 1);
    let block = pool.alloc(order(4)).unwrap();
    let first = block.frame().get();
    let mut frames = Vec::new();
    pool.split_into(block, &mut frames);
    let numbers = frames.iter().map(|frame| frame.frame().get());
    assert!(numbers.eq(first..first + 16));
    assert!(frames.iter().all(|frame| frame.order() == Order::ZERO));
    pool.verify().unwrap();
    frames.truncate(5);
    assert_eq!(pool.stats().nr_available(), 59);
    pool.verify().unwrap();
    drop(frames);
    assert_eq!(pool.stats().nr_available(), 64);
    pool.verify().unwrap();
}

#[test]
fn frames_of_a_node_are_allocated_and_freed_in_bulk() {
    let pool = pool(256, 2);
    let mut frames = Vec::new();
    assert_eq!(pool.alloc_bulk_on(1, 100, &mut frames), 100);
    assert!(
        frames
            .iter()
            .all(|frame| pool.node_of(frame.frame()) == Some(1))
    );
    assert_eq!(pool.alloc_bulk_on(1, 100, &mut frames), 28);
    assert_eq!(pool.alloc_bulk_on(2, 100, &mut frames), 0);
    assert_eq!(pool.alloc_bulk_on(0, 5, &mut frames), 5);
    frames.rotate_left(3);
    pool.free_bulk(&mut frames);
    pool.verify().unwrap();
    assert_eq!(pool.stats().nr_free, 256);
}

#[test]
fn blocks_freed_to_the_nodes_merge_at_once() {
    let pool = pool(1024, 1);
    let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
    assert_eq!(blocks.len(), 1024);
    pool.free_to_nodes(blocks);
    assert_eq!(pool.free_blocks().of_order(Order::MAX), 1);
}

#[test]
#[should_panic(expected = "of another pool")]
fn a_block_of_another_pool_is_refused() {
    let (pool, other) = (pool(16, 1), pool(16, 1));
    let block = other.alloc(Order::ZERO).unwrap();
    pool.free_to_nodes(vec![block]);
}
