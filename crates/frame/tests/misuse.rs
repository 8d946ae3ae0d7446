//! Misuse of a pool: numbers and orders that there are not, and nodes too small for a block.

#![cfg(not(loom))]

mod support;

use std::panic::catch_unwind;

use pagewell_frame::{FRAME_NR_BITS, FrameNr, FramePool, Order};
use support::{assert_all_free, frame, order, pool_in, take_all};

#[test]
fn absurd_orders_and_numbers_cannot_be_made() {
    for k in 11..=u8::MAX {
        assert_eq!(Order::new(k), None);
    }
    assert_eq!(FrameNr::try_new(1 << FRAME_NR_BITS), None);
    assert_eq!(FrameNr::try_new(u32::MAX), None);
    assert!(catch_unwind(|| FrameNr::new(1 << FRAME_NR_BITS)).is_err());
}

#[test]
fn nodes_too_small_for_a_block_give_none_and_keep_what_they_have() {
    for (nr_frames, nr_nodes) in [(1, 1), (3, 3), (64, 64), (6, 2)] {
        let pool: FramePool = pool_in(nr_frames, nr_nodes);
        for k in 2..=Order::MAX.get() {
            assert!(pool.alloc(order(k)).is_none());
            assert!(pool.take_free_within(frame(0), order(k)).is_empty());
        }
        let all = take_all(&pool, Order::ZERO);
        assert_eq!(all.len(), nr_frames);
        assert_eq!(pool.alloc_bulk(usize::MAX, &mut Vec::new()), 0);
        drop(all);
        assert_all_free(&pool);
    }
}
