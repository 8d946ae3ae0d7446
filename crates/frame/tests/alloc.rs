//! Allocation: in bulk, by node, of parts that become a block, and through the front caches of
//! threads that come and go.

#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use pagewell_frame::{AllocError, AllocRequest, FrameNr, FramePool, Order, Place, UniqueFrame};
use support::{
    STRATEGIES, assert_accounts, assert_all_free, frame, order, pool, pool_in,
    pool_with_front_caches, split_block, take_all,
};

/// Asks for a block as nobody does who has a front cache: by node.
fn by_place(order: Order, place: Place) -> AllocRequest {
    AllocRequest {
        place,
        ..AllocRequest::new(order)
    }
}

/// All blocks that such a request can have.
fn take_all_by<'p>(pool: &'p FramePool, request: &AllocRequest) -> Vec<UniqueFrame<'p>> {
    std::iter::from_fn(|| pool.alloc_by(request).ok()).collect()
}

fn numbers(blocks: &[UniqueFrame<'_>]) -> Vec<usize> {
    blocks.iter().map(|block| block.frame().index()).collect()
}

#[test]
fn bulk_gives_as_many_frames_as_there_are() {
    for nr_nodes in [1, 3] {
        let pool = pool_in(1000, nr_nodes);
        let mut frames = Vec::new();
        assert_eq!(pool.alloc_bulk(0, &mut frames), 0);
        assert_eq!(pool.alloc_bulk(1, &mut frames), 1);
        assert_eq!(pool.alloc_bulk(600, &mut frames), 600);
        pool.verify().unwrap();
        assert_eq!(pool.alloc_bulk(usize::MAX, &mut frames), 399);
        assert_eq!(pool.alloc_bulk(1, &mut frames), 0);
        assert_eq!(frames.len(), 1000);
        assert_eq!(
            numbers(&frames).into_iter().collect::<BTreeSet<_>>().len(),
            1000
        );
        assert!(frames.iter().all(|block| block.order() == Order::ZERO));
        assert_accounts(&pool, 1000);
        drop(frames);
        assert_all_free(&pool);
    }
}

#[test]
fn bulk_gives_frames_side_by_side() {
    let pool = pool(2048);
    let mut frames = Vec::new();
    assert_eq!(pool.alloc_bulk(600, &mut frames), 600);
    let mut all = numbers(&frames);
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]));
}

#[test]
fn bulk_takes_small_blocks_before_it_splits_large_ones() {
    let pool = pool(2048);
    // What is left of one block of order 10 when two frames in it are taken.
    let kept = pool.alloc_by(&by_place(order(1), Place::Only(0))).unwrap();
    let mut frames = Vec::new();
    assert_eq!(pool.alloc_bulk(1022, &mut frames), 1022);
    assert_eq!(pool.free_blocks().of_order(Order::MAX), 1);
    drop((kept, frames));
    assert_all_free(&pool);
}

#[test]
fn bulk_takes_what_is_at_hand_of_other_threads() {
    let pool = pool_with_front_caches();
    thread::scope(|scope| {
        scope.spawn(|| drop(take_all(&pool, Order::ZERO)));
    });
    let mut frames = Vec::new();
    assert_eq!(
        pool.alloc_bulk(pool.nr_frames(), &mut frames),
        pool.nr_frames()
    );
}

#[test]
fn a_block_is_in_the_only_node_that_was_allowed() {
    let pool = pool_in(96, 3);
    for k in [0, 2, 4] {
        for node in 0..3 {
            let blocks = take_all_by(&pool, &by_place(order(k), Place::Only(node)));
            assert_eq!(blocks.len(), 32 >> k);
            let range = 32 * node..32 * (node + 1);
            assert!(numbers(&blocks).iter().all(|nr| range.contains(nr)));
            pool.verify().unwrap();
        }
    }
    assert_all_free(&pool);
}

#[test]
fn a_preferred_node_is_used_first_and_then_the_next_ones() {
    for preferred in 0..3 {
        let pool = pool_in(96, 3);
        let blocks = take_all_by(&pool, &by_place(order(2), Place::Prefer(preferred)));
        let nodes: Vec<usize> = numbers(&blocks).iter().map(|nr| nr / 32).collect();
        let expected = (preferred..preferred + 3).flat_map(|node| [node % 3; 8]);
        assert_eq!(nodes, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_node_that_is_not_there_is_an_error() {
    let pool = pool_in(96, 3);
    for node in [3, 64, usize::MAX] {
        for place in [Place::Only(node), Place::Prefer(node)] {
            let error = pool.alloc_by(&by_place(Order::ZERO, place)).unwrap_err();
            assert_eq!(error, AllocError::NoSuchNode { node, nr_nodes: 3 });
            let text = format!("cannot allocate from node {node}: the pool has 3, counted from 0");
            assert_eq!(error.to_string(), text);
        }
    }
    assert_all_free(&pool);
}

#[test]
fn an_order_that_no_node_has_is_an_error() {
    let pool = pool_in(96, 3);
    for place in [Place::Anywhere, Place::Prefer(1), Place::Only(2)] {
        let error = pool.alloc_by(&by_place(order(6), place)).unwrap_err();
        assert_eq!(error, AllocError::Exhausted { order: order(6) });
        assert_eq!(
            error.to_string(),
            "cannot allocate: no free block of order 6"
        );
    }
    assert_all_free(&pool);
}

#[test]
fn threads_that_come_and_go_leave_nothing_behind() {
    let pool = pool(1024);
    for round in 0..500 {
        let threads = thread::scope(|scope| {
            let one = scope.spawn(|| pool.alloc(Order::ZERO));
            let other = scope.spawn(|| {
                let range = split_block(&pool, order(3));
                assert_eq!(range.free(STRATEGIES[round % 3]), 0);
            });
            (one.join().unwrap(), other.join().unwrap())
        });
        // What the first has allocated is freed by a third thread: this one.
        assert!(threads.0.is_some());
        drop(threads);
        if round % 50 == 0 {
            let whole = pool.alloc(Order::MAX);
            assert_eq!(whole.map(|block| block.frame()), Some(frame(0)));
            pool.verify().unwrap();
        }
    }
    assert_eq!(take_all(&pool, Order::ZERO).len(), 1024);
    assert_all_free(&pool);
}

#[test]
fn what_an_idle_thread_has_at_hand_is_found_by_one_that_needs_it() {
    let pool = pool_with_front_caches();
    let (is_filled, is_over) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(take_all(&pool, Order::ZERO));
            is_filled.wait();
            is_over.wait();
        });
        is_filled.wait();
        assert!(pool.stats().nr_cached > 0);
        let whole = take_all(&pool, Order::MAX);
        let nr = pool.nr_blocks(Order::MAX);
        assert_eq!(whole.len(), nr, "its frames are parts of them");
        drop(whole);
        assert_eq!(take_all(&pool, Order::ZERO).len(), pool.nr_frames());
        is_over.wait();
    });
    assert_all_free(&pool);
}

#[test]
fn blocks_freed_by_another_thread_are_as_good_as_own_ones() {
    let pool = pool(1024);
    for k in [0, 1, 4, 9] {
        let (sender, receiver) = std::sync::mpsc::sync_channel(4);
        thread::scope(|scope| {
            scope.spawn(|| receiver.into_iter().for_each(drop::<UniqueFrame<'_>>));
            let mut nr_sent = 0;
            while nr_sent < 500 {
                if let Some(block) = pool.alloc(order(k)) {
                    sender.send(block).unwrap();
                    nr_sent += 1;
                }
            }
            drop(sender);
        });
        assert_all_free(&pool);
    }
}

/// More than its front cache holds: some of it is on its way to other front caches then.
#[test]
fn what_another_thread_has_freed_is_merged_when_the_caches_are_drained() {
    let pool = pool(1 << 14);
    let whole = pool.free_blocks();
    let mut frames = Vec::new();
    assert_eq!(pool.alloc_bulk(400, &mut frames), 400);
    thread::scope(|scope| {
        scope.spawn(|| drop(frames)).join().unwrap();
    });
    pool.verify().unwrap();
    assert_eq!(pool.stats().nr_available(), 1 << 14);
    assert!(pool.drain_front_caches() > 0);
    pool.verify().unwrap();
    assert_eq!(pool.stats().nr_free, 1 << 14);
    assert_eq!(pool.free_blocks(), whole);
}

#[test]
fn a_frame_is_among_those_of_its_node() {
    let pool = pool_in(100, 3);
    for nr in 0..100 {
        let node = pool.node_of(FrameNr::new(nr)).unwrap();
        for other in 0..4 {
            assert_eq!(pool.frames_of(other).contains(&nr), other == node);
        }
    }
}

/// Regression: a file with pages of 64 KiB could be opened in a cache of 80 frames in eight nodes,
/// which has no block of that size. The check counted frames instead of blocks within nodes.
#[test]
fn blocks_are_counted_node_by_node() {
    assert_eq!(pool_in(80, 8).nr_blocks(Order::ZERO), 80);
    assert_eq!(pool_in(80, 8).nr_blocks(order(1)), 40);
    // Each node has ten frames: 0..10, 10..20 and so on. Four nodes contain a block of eight
    // aligned frames: 0..8 in 0..10, 32..40 in 30..40, 40..48 in 40..50 and 72..80 in 70..80.
    assert_eq!(pool_in(80, 8).nr_blocks(order(3)), 4);
    assert_eq!(pool_in(80, 8).nr_blocks(order(4)), 0);
    assert_eq!(pool(80).nr_blocks(order(4)), 5);
    for (nr_frames, nr_nodes) in [(80, 8), (80, 1), (131, 3)] {
        let pool = pool_in(nr_frames, nr_nodes);
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
    let pool = pool(64);
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
    let pool = pool(64);
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
    let pool = pool(64);
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
    let pool = pool_in(256, 2);
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
    let pool = pool(1024);
    let blocks: Vec<_> = std::iter::from_fn(|| pool.alloc(Order::ZERO)).collect();
    assert_eq!(blocks.len(), 1024);
    pool.free_to_nodes(blocks);
    assert_eq!(pool.free_blocks().of_order(Order::MAX), 1);
}

#[test]
#[should_panic(expected = "of another pool")]
fn a_block_of_another_pool_is_refused() {
    let (pool, other) = (pool(16), pool(16));
    let block = other.alloc(Order::ZERO).unwrap();
    pool.free_to_nodes(vec![block]);
}
