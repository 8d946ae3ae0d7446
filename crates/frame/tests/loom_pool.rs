//! Models of the frame pool's races, explored exhaustively by loom: giving up frames that others hold or
//! look for, front caches that are filled and emptied, merging, poisoning.
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
use pagewell_frame::refcount::LockBit;
use pagewell_frame::{
    FrameNr, FramePool, FrameRef, FreeRange, Freed, Misuse, Nodes, Order, Poisoned, PoolConfig,
    TryGetFrame,
};

type Pool = FramePool<LockBit>;

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

/// A pool whose first two frames are a split block, owned by their numbers.
fn split_pool() -> Arc<Pool> {
    let pool = pool();
    let (first, nr) = pool.alloc(order(1)).unwrap().split().into_raw();
    assert_eq!((first, nr), (frame(0), 2));
    pool
}

/// Explores all schedules with up to `preemptions` preemptions, unless the environment says otherwise.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

#[track_caller]
fn assert_all_free_but(pool: &Pool, nr_leaked: usize) {
    pool.verify().unwrap();
    let stats = pool.stats();
    assert_eq!(stats.nr_leaked, nr_leaked);
    assert_eq!(stats.nr_available() + nr_leaked, NR_FRAMES, "{stats:?}");
}

/// The references of frames, handed from one thread of a model to another as numbers.
fn from_raw(pool: &Pool, frame: FrameNr) -> FrameRef<'_, LockBit> {
    // SAFETY: (A) the models pass the number of each reference on once.
    unsafe { FrameRef::from_raw(pool, frame) }
}

/// A reference of another's is dropped while the range is freed: whoever is last frees the frame, once.
fn range_vs_late_put(strategy: FreeRange) {
    check(3, move || {
        let pool = split_pool();
        let TryGetFrame::Taken(held) = pool.try_get(frame(0)) else {
            panic!("nobody has it locked");
        };
        let held = held.into_raw();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || drop(from_raw(&pool, held))
        });
        let nr_held = pool.free_contig_range_by(frame(0), 2, strategy).unwrap();
        assert!(nr_held <= 1);
        other.join().unwrap();
        assert_all_free_but(&pool, 0);
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
        let pool = split_pool();
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
        let nr_held = pool.free_contig_range(frame(0), 2).unwrap();
        assert!(nr_held <= 1);
        let mut blocks = Vec::new();
        while let Some(block) = pool.alloc(Order::ZERO) {
            assert!(!(block.frame() == frame(1) && is_held.load(SeqCst)));
            blocks.push(block);
        }
        drop(blocks);
        other.join().unwrap();
        assert_all_free_but(&pool, 0);
    });
}

/// The owner's reference is given up twice while somebody holds the frame: once it succeeds, once it is an
/// error, and the holder's reference is not dropped for them.
#[test]
fn loom_free_vs_free_in_use() {
    check(3, || {
        let pool = split_pool();
        let TryGetFrame::Taken(held) = pool.try_get(frame(0)) else {
            panic!("nobody has it locked");
        };
        let free = |pool: &Pool| pool.free(frame(0), Order::ZERO).is_ok();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || free(&pool)
        });
        let mine = free(&pool);
        let theirs = other.join().unwrap();
        assert!(mine ^ theirs);
        assert_eq!(held.meta().count(), 1);
        drop(held);
        assert_eq!(pool.free(frame(1), Order::ZERO), Ok(Freed::Now));
        assert_all_free_but(&pool, 0);
    });
}

/// Two threads free the same range: one does, and the other is told, and changes nothing.
#[test]
fn loom_range_vs_range() {
    check(2, || {
        let pool = split_pool();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.free_contig_range(frame(0), 2)
        });
        let mine = pool.free_contig_range(frame(0), 2);
        let theirs = other.join().unwrap();
        assert!(mine.is_ok() ^ theirs.is_ok(), "{mine:?} {theirs:?}");
        let error = mine.and(theirs).unwrap_err();
        assert_eq!(error.misuse, Misuse::NotAllocated);
        assert_all_free_but(&pool, 0);
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
        assert_all_free_but(&pool, 0);
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
        assert_all_free_but(&pool, 0);
    });
}

/// Two halves of a block are freed to the node and merge there while another thread allocates.
#[test]
fn loom_merge_vs_alloc() {
    check(2, || {
        let pool = pool();
        let halves = vec![pool.alloc(order(1)).unwrap(), pool.alloc(order(1)).unwrap()];
        let numbers: Vec<FrameNr> = halves.into_iter().map(|half| half.into_raw()).collect();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                if let Some(block) = pool.alloc(order(1)) {
                    assert!(block.frame() == frame(0) || block.frame() == frame(2));
                }
            }
        });
        for number in numbers {
            let _ = pool.free(number, order(1)).unwrap();
        }
        other.join().unwrap();
        pool.drain_front_caches();
        assert_eq!(pool.free_blocks().of_order(order(2)), 1);
        assert_all_free_but(&pool, 0);
    });
}

/// A frame is poisoned while its range is freed: it is leaked, by the one or the other.
fn poison_vs_range(strategy: FreeRange) {
    check(2, move || {
        let pool = split_pool();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(1))
        });
        assert_eq!(pool.free_contig_range_by(frame(0), 2, strategy), Ok(0));
        let outcome = other.join().unwrap();
        assert!(matches!(outcome, Poisoned::Leaked | Poisoned::WhenFreed));
        assert_all_free_but(&pool, 1);
    });
}

#[test]
fn loom_poison_vs_range_chunked() {
    poison_vs_range(FreeRange::Chunked);
}

#[test]
fn loom_poison_vs_range_merged() {
    poison_vs_range(FreeRange::Merged);
}

#[test]
fn loom_poison_vs_range_one_by_one() {
    poison_vs_range(FreeRange::OneByOne);
}

/// As above, when the range is a whole page block, which goes to a front cache.
#[test]
fn loom_poison_vs_range_of_a_page_block() {
    check(2, || {
        let pool = pool();
        let (first, nr) = pool.alloc(Order::PAGE_BLOCK).unwrap().split().into_raw();
        assert_eq!((first, nr), (frame(0), NR_FRAMES));
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(1))
        });
        assert_eq!(pool.free_contig_range(first, nr), Ok(0));
        let outcome = other.join().unwrap();
        assert!(matches!(outcome, Poisoned::Leaked | Poisoned::WhenFreed));
        assert_all_free_but(&pool, 1);
    });
}

/// A frame is poisoned while it is allocated and freed by another thread.
#[test]
fn loom_poison_vs_alloc_and_free() {
    check(2, || {
        let pool = pool();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(0))
        });
        for order in [Order::ZERO, order(1)] {
            drop(pool.alloc(order));
        }
        let outcome = other.join().unwrap();
        assert!(matches!(outcome, Poisoned::Leaked | Poisoned::WhenFreed));
        assert_all_free_but(&pool, 1);
        assert_eq!(pool.poison(frame(0)), Poisoned::Already);
        assert_eq!(
            pool.free(frame(0), Order::ZERO).unwrap_err().misuse,
            Misuse::NotAllocated
        );
    });
}

/// A frame is poisoned while another thread takes the block beside it, of `beside`: a block that was taken, and not
/// named yet, must not look as large as what it was cut from.
fn poison_beside_alloc(beside: Order) {
    check(2, move || {
        let pool = pool();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || drop(pool.alloc(beside))
        });
        let poisoned = pool.alloc(order(1)).map(|block| {
            let _ = pool.poison(frame(block.frame().get() + 1));
        });
        other.join().unwrap();
        assert_all_free_but(&pool, usize::from(poisoned.is_some()));
    });
}

#[test]
fn loom_poison_beside_alloc_of_a_frame() {
    poison_beside_alloc(Order::ZERO);
}

#[test]
fn loom_poison_beside_alloc_of_a_block() {
    poison_beside_alloc(order(1));
}

/// A frame of a part is poisoned while the parts are joined.
#[test]
fn loom_poison_vs_join_of_parts() {
    check(2, || {
        let pool = pool();
        let numbers = [pool.alloc(order(1)).unwrap(), pool.alloc(order(1)).unwrap()];
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(3))
        });
        drop(pool.join(numbers.into(), order(2)).unwrap());
        let _ = other.join().unwrap();
        assert_all_free_but(&pool, 1);
    });
}

/// A frame is poisoned in the part of a block that is cut off.
#[test]
fn loom_poison_vs_cut() {
    check(2, || {
        let pool = pool();
        let block = pool.alloc(order(2)).unwrap();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(3))
        });
        drop(pool.join(vec![block], order(1)).unwrap());
        let _ = other.join().unwrap();
        assert_all_free_but(&pool, 1);
    });
}

/// A frame is poisoned while its block is split; what was flagged for its sake can be used afterwards.
#[test]
fn loom_poison_vs_split() {
    check(2, || {
        let pool = pool();
        let first = pool.alloc(order(1)).unwrap().into_raw();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(1))
        });
        pool.split(first, order(1)).unwrap();
        assert_eq!(pool.free_contig_range(first, 2), Ok(0));
        let _ = other.join().unwrap();
        assert_all_free_but(&pool, 1);
        let (a, b) = (pool.alloc(Order::ZERO), pool.alloc(Order::ZERO));
        drop((a, b));
        assert_all_free_but(&pool, 1);
        pool.drain_front_caches();
        drop(pool.alloc(Order::ZERO));
        assert_all_free_but(&pool, 1);
    });
}

/// As above, with a frame in a front cache that has the flag of the block that it was of.
#[test]
fn loom_poison_vs_split_and_refill() {
    check(3, || {
        let pool = pool();
        let first = pool.alloc(order(1)).unwrap().into_raw();
        let mut two = pool.alloc(order(1)).unwrap().split();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.poison(frame(1))
        });
        pool.split(first, order(1)).unwrap();
        assert_eq!(pool.free_contig_range(first, 2), Ok(0));
        let _ = other.join().unwrap();
        let three = two.split_off(1);
        drop(two);
        let a = pool.alloc(Order::ZERO);
        pool.verify().unwrap();
        drop((a, three));
        assert_all_free_but(&pool, 1);
    });
}
