//! Models of the frame pool's races, explored exhaustively by loom: freeing ranges of frames that others hold or
//! look for, front caches that are filled and emptied, merging.
//!
//! Under loom a page block has four frames, and a front cache holds two.
//!
//! `cd models && cargo test --profile loom -p pagewell-frame --test loom_pool`
//!
//! What breaks them is in `verify/mutants`.

#![cfg(loom)]

// Not loom's: what shares the pool, and what the models note of a run, is no part of the run.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Note, Ordering::SeqCst};

use loom::thread;
use pagewell_frame::{
    FrameKind, FrameNr, FramePool, FrameRange, FrameRef, FreeRange, Nodes, Order, PoolConfig,
    TryGetFrame,
};

type Pool = FramePool;

const NR_FRAMES: usize = 4;

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

fn frame(nr: u32) -> FrameNr {
    FrameNr::new(nr)
}

/// A pool of a single page block.
fn pool() -> Arc<Pool> {
    let mut config = PoolConfig::new(NR_FRAMES);
    config.nodes = Nodes::Unbound(1);
    Arc::new(Pool::new(&config).unwrap())
}

/// The first two frames of a pool that is new.
fn split_block(pool: &Pool) -> FrameRange<'_> {
    let range = pool.alloc(order(1)).unwrap().split();
    assert_eq!((range.first(), range.len()), (frame(0), 2));
    range
}

/// Explores all schedules with up to `preemptions` preemptions, unless the environment says otherwise.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

#[track_caller]
fn assert_all_free(pool: &Pool) {
    pool.verify().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.nr_available(), NR_FRAMES, "{stats:?}");
}

/// The references of frames, handed from one thread of a model to another as numbers.
fn from_raw(pool: &Pool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) the models pass the number of each reference on once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// A reference of another's is dropped while the range is freed: whoever is last frees the frame, once.
fn range_vs_late_put(strategy: FreeRange) {
    check(3, move || {
        let pool = pool();
        let range = split_block(&pool);
        let held = range.get(0).unwrap().into_raw();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || drop(from_raw(&pool, held))
        });
        let nr_held = range.free(strategy);
        assert!(nr_held <= 1);
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

#[test]
fn loom_range_vs_late_put_chunked() {
    range_vs_late_put(FreeRange::Chunked);
}

#[test]
fn loom_range_vs_late_put_merged() {
    range_vs_late_put(FreeRange::Merged);
}

#[test]
fn loom_range_vs_late_put_one_by_one() {
    range_vs_late_put(FreeRange::OneByOne);
}

/// A `try_get` comes while the range is freed, and is allocated anew: while its reference is held, nobody
/// else is given the frame.
#[test]
fn loom_range_vs_late_try_get() {
    check(2, || {
        let pool = pool();
        let range = split_block(&pool);
        let is_held = Arc::new(Note::new(false));
        let other = thread::spawn({
            let (pool, is_held) = (Arc::clone(&pool), Arc::clone(&is_held));
            move || {
                if let TryGetFrame::Taken(reference) = pool.try_get(frame(1)) {
                    is_held.store(true, SeqCst);
                    thread::yield_now();
                    is_held.store(false, SeqCst);
                    drop(reference);
                }
            }
        });
        let nr_held = range.free(FreeRange::default());
        assert!(nr_held <= 1);
        let mut blocks = Vec::new();
        while let Some(block) = pool.alloc(Order::ZERO) {
            assert!(!(block.frame() == frame(1) && is_held.load(SeqCst)));
            blocks.push(block);
        }
        drop(blocks);
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

/// A `try_get` comes between the range's last put and the lock of that put, frees the frame, and allocates it again as the
/// first of a larger block: whoever locks the count last frees the block, and not the frame alone.
#[test]
fn loom_range_vs_late_try_get_of_a_larger_block() {
    check(4, || {
        let pool = pool();
        let range = pool.alloc(Order::ZERO).unwrap().split();
        assert_eq!(range.first(), frame(0));
        // Frame 1 is free, and the only one: frames 0 and 1 are one block as soon as frame 0 is free.
        let rest = pool.alloc(order(1)).unwrap();
        pool.drain_front_caches();
        let held = range.get(0).unwrap().into_raw();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                drop(from_raw(&pool, held));
                let TryGetFrame::Taken(reference) = pool.try_get(held) else {
                    return;
                };
                drop(reference);
                pool.drain_front_caches();
                if let Some(block) = pool.alloc(order(1)) {
                    // SAFETY: (K) a block of kind `Raw` has no words.
                    let first = unsafe { block.publish(FrameKind::Raw, (0, 0), 1) };
                    drop(from_raw(&pool, first));
                }
            }
        });
        let nr_held = range.free(FreeRange::default());
        assert!(nr_held <= 1);
        other.join().unwrap();
        drop(rest);
        assert_all_free(&pool);
    });
}

/// A thread fills its front cache from the node while another empties all of them.
#[test]
fn loom_refill_vs_drain() {
    check(2, || {
        let pool = pool();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                pool.drain_front_caches();
                pool.drain_front_caches();
            }
        });
        let one = pool.alloc(Order::ZERO);
        assert!(one.is_some());
        drop(one);
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

/// Two threads want more than the node has, while some of it is in the other's front cache: nobody is given
/// what another has, and nothing is lost.
#[test]
fn loom_refill_vs_refill() {
    check(2, || {
        let pool = pool();
        let take = |pool: &Pool| {
            let (one, two) = (pool.alloc(Order::ZERO), pool.alloc(Order::ZERO));
            if let (Some(one), Some(two)) = (&one, &two) {
                assert_ne!(one.frame(), two.frame());
            }
            (one.is_some(), two.is_some())
        };
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || take(&pool)
        });
        // Four frames for two threads with two each: nobody goes without.
        assert_eq!(take(&pool), (true, true));
        assert_eq!(other.join().unwrap(), (true, true));
        assert_all_free(&pool);
    });
}

/// Two halves of a block are freed to the node and merge there while another thread allocates.
#[test]
fn loom_merge_vs_alloc() {
    check(2, || {
        let pool = pool();
        let halves = vec![pool.alloc(order(1)).unwrap(), pool.alloc(order(1)).unwrap()];
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                if let Some(block) = pool.alloc(order(1)) {
                    assert!(block.frame() == frame(0) || block.frame() == frame(2));
                }
            }
        });
        drop(halves);
        other.join().unwrap();
        pool.drain_front_caches();
        assert_eq!(pool.free_blocks().of_order(order(2)), 1);
        assert_all_free(&pool);
    });
}
