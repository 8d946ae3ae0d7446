use std::collections::BTreeSet;
use std::time::Duration;

use pagewell_frame::Order;

use super::frames::Block;
use super::*;

/// 128 page blocks, more than are ever on their way.
const NR_FRAMES: usize = 64 << 10;

fn cell(case: Case, threads: u32) -> Cell {
    Cell {
        case,
        block: 0,
        file_bytes: 0,
        threads,
        forks: 0,
    }
}

/// Blocks that are held at the same time are different ones, and can all be freed by their number.
#[allow(unsafe_code)] // The numbers are made blocks again.
fn hands_out_each_block_once<F: Frames>(engine: &str, frames: &F) {
    for order in [Order::ZERO, Order::PAGE_BLOCK] {
        for _ in 0..2 {
            let numbers: BTreeSet<usize> = (0..8)
                .map(|_| frames.alloc(order).expect(engine).into_number())
                .collect();
            assert_eq!(numbers.len(), 8, "{engine}");
            for number in numbers {
                // SAFETY: (A) each number is of a block that was just allocated, and used once.
                drop(unsafe { frames.adopt(number, order) });
            }
        }
    }
}

#[test]
fn every_engine_hands_out_each_block_once() {
    let pool = pagewell::new(NR_FRAMES).unwrap();
    hands_out_each_block_once(PAGEWELL, &pool);
    assert_eq!(pool.stats().nr_available(), NR_FRAMES);
    hands_out_each_block_once(SYSTEM, &system::System);
    hands_out_each_block_once(BUDDY_SLAB, &buddy_slab::new(NR_FRAMES).unwrap());
    hands_out_each_block_once(BUDDY_SYSTEM, &buddy_system::new(NR_FRAMES));
    hands_out_each_block_once(BITMAP, &bitmap::new(NR_FRAMES).unwrap());
    hands_out_each_block_once(
        FRAME_ALLOC,
        &frame_alloc::FrameAlloc::new(NR_FRAMES).unwrap(),
    );
}

#[test]
fn blocks_that_are_still_on_their_way_are_freed_in_the_end() {
    let pool = pagewell::new(NR_FRAMES).unwrap();
    for case in [Case::Order0Mixed, Case::Order9Mixed] {
        let cell = cell(case, 2);
        let mut users = Users::new(&pool, &cell);
        let schedule = Schedule::new(1, 2, Duration::from_millis(4));
        let workers = users.lanes().into_iter().map(|lane| vec![lane]).collect();
        run_threads(&schedule, &[], workers, |_| Ok(())).unwrap();
        drop(users);
        assert_eq!(pool.stats().nr_available(), NR_FRAMES, "{case:?}");
        assert_eq!(pool.verify(), Ok(()));
    }
}

#[test]
fn an_exhausted_allocator_is_an_error() {
    let pool = pagewell::new(64).unwrap();
    let mut pairs = Pairs::new(&pool, Order::PAGE_BLOCK);
    assert!(pairs.batch(1).unwrap_err().contains("order 9"));
    let mut bursts = Bursts::new(&pool, Order::ZERO, 65);
    assert!(bursts.batch(1).is_err());
}
