//! More threads than front caches. In a process of its own: the other tests rely
//! on a front cache for each of their threads.

#![cfg(not(loom))]

mod support;

use std::sync::Barrier;
use std::thread;

use support::{assert_all_free, nr_free_blocks, nr_front_caches, order, pool};

#[test]
fn more_threads_than_front_caches_all_get_frames() {
    let nr_threads = nr_front_caches() + 8;
    let pool = pool(8 * nr_threads.next_multiple_of(128));
    let barrier = Barrier::new(nr_threads);
    thread::scope(|scope| {
        for _ in 0..nr_threads {
            scope.spawn(|| {
                // All of them are alive at once.
                barrier.wait();
                let blocks = [0, 0, 1, 2].map(|k| pool.alloc(order(k)).expect("enough for all"));
                barrier.wait();
                drop(blocks);
                let range = pool.alloc(order(2)).expect("enough for all").split();
                barrier.wait();
                drop(range);
            });
        }
    });
    assert_all_free(&pool);
    assert_eq!(
        nr_free_blocks(&pool),
        nr_free_blocks(&support::pool(pool.nr_frames()))
    );
}
