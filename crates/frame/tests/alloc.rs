//! Allocation: in bulk, by node, and through the front caches of
//! threads that come and go.

#![cfg(not(loom))]

mod support;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use pagewell_frame::{AllocError, AllocRequest, FramePool, Order, Place, UniqueFrame};
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
