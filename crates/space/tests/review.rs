//! What a review found.
#![cfg(not(loom))]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::spaces;
use pagewell_space::{MapOptions, Policy};

const PAGE: u64 = 4096;
const TABLE: u64 = 2 << 20;

/// Where the beginning of a table's addresses was unmapped, no area of other pages may come.
#[test]
fn a_gap_before_an_area_is_not_used_within_its_table() {
    let spaces = spaces(4096, 1);
    let space = spaces.space_of(2 * TABLE).unwrap();
    let first = space.map(TABLE, Policy::Local).unwrap();
    let _second = space.map(TABLE, Policy::Local).unwrap();
    space.write(first.start + TABLE / 2, b"stays").unwrap();
    space.unmap(first.start..first.start + TABLE / 2).unwrap();
    let options = MapOptions::new().page_bytes(64 << 10);
    let Ok(large) = space.map_with(TABLE / 2, &options) else {
        return;
    };
    for page in 0..8_u64 {
        let addr = large.start + page * (64 << 10);
        space.write(addr, &page.to_ne_bytes()).unwrap();
    }
    for page in 0..8_u64 {
        let addr = large.start + page * (64 << 10);
        let mut buf = [0; 8];
        space.read(addr, &mut buf).unwrap();
        assert_eq!(u64::from_ne_bytes(buf), page, "{addr:#x}");
    }
    spaces.verify(&[&space]).unwrap();
}

/// The only room may be below.
#[test]
fn a_range_moves_down() {
    let spaces = spaces(4096, 1);
    let space = spaces.space_of(2 * TABLE).unwrap();
    let first = space.map(TABLE, Policy::Local).unwrap();
    let second = space.map(TABLE, Policy::Local).unwrap();
    space.write(second.start, b"moved").unwrap();
    space.unmap(first.clone()).unwrap();
    let moved = space
        .move_to_free(second.start..second.start + PAGE)
        .unwrap();
    let mut buf = [0; 5];
    space.read(moved.start, &mut buf).unwrap();
    assert_eq!(&buf, b"moved");
    spaces.verify(&[&space]).unwrap();
}

/// A write within one page is whole or not at all, also if it is the first one in its table.
#[test]
fn the_first_write_of_a_large_page_is_one() {
    for _ in 0..3 {
        write_first_from_two_threads();
    }
}

fn write_first_from_two_threads() {
    const LEN: usize = 2 * PAGE as usize;
    let nr_tables = 1000;
    let spaces = spaces(8192, 1);
    let space = spaces.space().unwrap();
    let options = MapOptions::new().page_bytes(LEN);
    let area = space.map_with(nr_tables * TABLE, &options).unwrap();
    let turn = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for value in [1, 2] {
            let (space, area, turn) = (&space, &area, &turn);
            scope.spawn(move || {
                for nr in 0..nr_tables {
                    turn.fetch_add(1, Ordering::AcqRel);
                    let mut nr_spins = 0;
                    while turn.load(Ordering::Acquire) < 2 * (nr + 1) {
                        nr_spins += 1;
                        if nr_spins % 1000 == 0 {
                            std::thread::yield_now();
                        }
                    }
                    space.write(area.start + nr * TABLE, &[value; LEN]).unwrap();
                }
            });
        }
    });
    for nr in 0..nr_tables {
        let mut buf = [0; LEN];
        space.read(area.start + nr * TABLE, &mut buf).unwrap();
        assert_eq!(buf[0], buf[LEN - 1], "torn, in table {nr}");
    }
}
