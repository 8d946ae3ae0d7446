//! Migration, as its callers see it.
#![cfg(not(loom))]

mod common;

use common::spaces;
use pagewell_space::{Engine, ErrorKind, ForkMode, MapOptions, NotMoved, Policy, Space, Spaces};

const PAGE: u64 = 4096;
const ENGINES: [Engine; 3] = [Engine::FullWalk, Engine::EarlyStop, Engine::Batched];

/// A space with `nr` pages on node 0, each filled with its number.
fn filled(spaces: &Spaces, nr: u64) -> (Space, std::ops::Range<u64>) {
    let space = spaces.space().unwrap();
    let range = space.map(nr * PAGE, Policy::Bind(0)).unwrap();
    for page in 0..nr {
        let bytes = [page as u8 + 1; PAGE as usize];
        space.write(range.start + page * PAGE, &bytes).unwrap();
    }
    (space, range)
}

fn check(space: &Space, range: &std::ops::Range<u64>) {
    for (nr, addr) in range.clone().step_by(PAGE as usize).enumerate() {
        let mut buf = [0; PAGE as usize];
        space.read(addr, &mut buf).unwrap();
        assert!(buf.iter().all(|b| *b == nr as u8 + 1), "page {nr}");
    }
}

#[test]
fn pages_move_to_the_node_and_back_with_all_who_share_them() {
    for engine in ENGINES {
        for nr_forks in [0, 1, 5] {
            for mode in [ForkMode::Share, ForkMode::Copy] {
                let spaces = spaces(2048, 2);
                let (space, range) = filled(&spaces, 100);
                let forks: Vec<_> = (0..nr_forks)
                    .map(|_| space.fork_with(mode).unwrap())
                    .collect();
                let free = spaces.pool().stats().nr_available();
                for (node, moved, there) in [(1, 100, 0), (1, 0, 100), (0, 100, 0)] {
                    let report = space.migrate_with(range.clone(), node, engine).unwrap();
                    assert_eq!((report.nr_moved, report.nr_there), (moved, there));
                    assert_eq!(report.not_moved, []);
                    let all: Vec<_> = forks.iter().chain([&space]).collect();
                    spaces.verify(&all).unwrap();
                    all.iter().for_each(|space| check(space, &range));
                }
                assert_eq!(spaces.pool().stats().nr_available(), free);
            }
        }
    }
}

#[test]
fn a_page_that_can_be_written_can_be_written_afterwards_and_a_shared_one_is_copied() {
    for engine in ENGINES {
        let spaces = spaces(512, 2);
        let (space, range) = filled(&spaces, 4);
        let fork = space.fork().unwrap();
        space.write(range.start, b"ours").unwrap();
        space.migrate_with(range.clone(), 1, engine).unwrap();
        space.write(range.start + PAGE, b"ours").unwrap();
        fork.write(range.start + 2 * PAGE, b"forks").unwrap();
        check(&fork, &(range.start..range.start + 2 * PAGE));
        let mut buf = [0; 5];
        space.read(range.start + 2 * PAGE, &mut buf).unwrap();
        assert_eq!(buf, [3; 5]);
        spaces.verify(&[&space, &fork]).unwrap();
    }
}

#[test]
fn a_pinned_page_is_reported_and_the_others_move() {
    for engine in ENGINES {
        for nr_forks in [0, 2] {
            let spaces = spaces(512, 2);
            let (space, range) = filled(&spaces, 10);
            let forks: Vec<_> = (0..nr_forks).map(|_| space.fork().unwrap()).collect();
            let pin = space.pin(range.start + 3 * PAGE, 100).unwrap();
            let report = space.migrate_with(range.clone(), 1, engine).unwrap();
            assert_eq!(report.nr_moved, 9);
            let pinned = (range.start + 3 * PAGE, NotMoved::Pinned);
            assert_eq!(report.not_moved, [pinned]);
            assert_eq!(*pin, [4; 100]);
            check(&space, &range);
            drop(pin);
            let report = space.migrate_with(range.clone(), 1, engine).unwrap();
            assert_eq!((report.nr_moved, report.nr_there), (1, 9));
            let all: Vec<_> = forks.iter().chain([&space]).collect();
            spaces.verify(&all).unwrap();
        }
    }
}

#[test]
fn when_the_node_is_full_the_rest_stays_where_it_was() {
    for engine in ENGINES {
        let spaces = spaces(400, 2);
        let (space, range) = filled(&spaces, 100);
        let other = spaces.space().unwrap();
        let taken = other.map(160 * PAGE, Policy::Bind(1)).unwrap();
        for addr in taken.step_by(PAGE as usize) {
            other.write(addr, b"x").unwrap();
        }
        let report = space.migrate_with(range.clone(), 1, engine).unwrap();
        assert!((1..=40).contains(&report.nr_moved), "{report:?}");
        assert_eq!(report.nr_moved + report.not_moved.len(), 100);
        assert!(
            report
                .not_moved
                .iter()
                .all(|(_, why)| *why == NotMoved::NodeFull)
        );
        check(&space, &range);
        spaces.verify(&[&space, &other]).unwrap();
    }
}

#[test]
fn large_pages_move_as_one() {
    let spaces = spaces(8192, 2);
    let space = spaces.space().unwrap();
    let options = MapOptions::new()
        .page_bytes(2 << 20)
        .policy(Policy::Bind(0));
    let range = space.map_with(6 << 20, &options).unwrap();
    space.write(range.start + (1 << 20), b"one").unwrap();
    space.write(range.start + (5 << 20), b"three").unwrap();
    let fork = space.fork().unwrap();
    fork.write(range.start, b"fork").unwrap();
    for engine in ENGINES {
        for node in [1, 0] {
            let report = space.migrate_with(range.clone(), node, engine).unwrap();
            assert_eq!((report.nr_moved, report.not_moved.len()), (2, 0));
            let mut buf = [0; 5];
            space.read(range.start + (5 << 20), &mut buf).unwrap();
            assert_eq!(&buf, b"three");
            fork.read(range.start + (1 << 20), &mut buf).unwrap();
            assert_eq!(&buf[..4], b"one\0");
            spaces.verify(&[&space, &fork]).unwrap();
        }
    }
}

#[test]
fn bad_arguments_are_errors() {
    let spaces = spaces(512, 2);
    let (space, range) = filled(&spaces, 10);
    let kind = |range, node| space.migrate(range, node).unwrap_err().kind();
    assert_eq!(kind(range.clone(), 2), ErrorKind::NoSuchNode);
    assert_eq!(kind(range.start + 1..range.end, 1), ErrorKind::Misaligned);
    assert_eq!(kind(range.start..range.end + PAGE, 1), ErrorKind::Unmapped);
    assert_eq!(kind(range.start..range.start, 1), ErrorKind::InvalidRange);
    assert_eq!(kind(0..u64::MAX, 1), ErrorKind::InvalidRange);
    check(&space, &range);
}
