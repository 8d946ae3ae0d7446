//! Compaction: large blocks out of fragmented memory.
#![cfg(not(loom))]

mod common;

use common::spaces;
use pagewell_frame::Order;
use pagewell_space::{ErrorKind, MapOptions, Policy, Space, Spaces};

const PAGE: u64 = 4096;

/// Fills all memory with pages, and unmaps all but every fourth of them.
fn fragmented(spaces: &Spaces) -> (Space, Vec<u64>) {
    let space = spaces.space().unwrap();
    let nr = spaces.pool().nr_frames() as u64;
    let range = space.map(nr * PAGE, Policy::Local).unwrap();
    let mut kept = Vec::new();
    let mut written = Vec::new();
    for addr in range.step_by(PAGE as usize) {
        if space.write(addr, &addr.to_ne_bytes().repeat(512)).is_err() {
            break;
        }
        written.push(addr);
    }
    for (nr, addr) in written.into_iter().enumerate() {
        if nr % 4 == 1 {
            kept.push(addr);
        } else {
            space.unmap(addr..addr + PAGE).unwrap();
        }
    }
    (space, kept)
}

fn check(space: &Space, kept: &[u64]) {
    for addr in kept {
        let mut buf = [0; PAGE as usize];
        space.read(*addr, &mut buf).unwrap();
        assert!(buf[..] == *addr.to_ne_bytes().repeat(512), "page {addr:#x}");
    }
}

#[test]
fn a_block_of_order_9_is_found_in_fragmented_memory() {
    let spaces = spaces(8192, 1);
    let (space, kept) = fragmented(&spaces);
    let fork = space.fork().unwrap();
    assert!(
        spaces.pool().alloc(Order::PAGE_BLOCK).is_none(),
        "not fragmented"
    );
    let blocks: Vec<_> =
        std::iter::from_fn(|| spaces.alloc_block(Order::PAGE_BLOCK).ok()).collect();
    // A quarter is in use; of the places for the rest some have tables in them.
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    check(&space, &kept);
    check(&fork, &kept);
    drop(blocks);
    spaces.verify(&[&space, &fork]).unwrap();
}

#[test]
fn a_large_page_is_written_in_fragmented_memory() {
    let spaces = spaces(8192, 1);
    let (space, kept) = fragmented(&spaces);
    let options = MapOptions::new().page_bytes(2 << 20);
    let large = space.map_with(4 << 20, &options).unwrap();
    space.write(large.start, b"large").unwrap();
    space.write(large.start + (2 << 20), b"large").unwrap();
    check(&space, &kept);
    spaces.verify(&[&space]).unwrap();
}

#[test]
fn a_pinned_page_keeps_its_place_and_the_others_do() {
    let spaces = spaces(2048, 1);
    let (space, kept) = fragmented(&spaces);
    let pins: Vec<_> = kept
        .iter()
        .map(|addr| space.pin(*addr, 8).unwrap())
        .collect();
    let error = spaces.alloc_block(Order::PAGE_BLOCK).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfFrames);
    for (pin, addr) in pins.iter().zip(&kept) {
        assert_eq!(**pin, addr.to_ne_bytes());
    }
    drop(pins);
    assert!(spaces.alloc_block(Order::PAGE_BLOCK).is_ok());
    check(&space, &kept);
    spaces.verify(&[&space]).unwrap();
}

/// Node 0 is full, but for holes; node 1 is empty. A large page is to be written on node 0.
fn large_page_on_a_node_of_scattered_pages(policy: Policy) -> (bool, usize) {
    let spaces = spaces(2048, 2);
    let space = spaces.space().unwrap();
    let area = space.map(1024 * PAGE, policy).unwrap();
    let mut written = Vec::new();
    for addr in area.step_by(PAGE as usize) {
        // What is left of node 0 is a few frames, those for tables.
        if spaces.pool().stats().nr_available() < 1024 + 64 {
            break;
        }
        space.write(addr, &addr.to_ne_bytes().repeat(512)).unwrap();
        written.push(addr);
    }
    // A quarter of the node becomes free: less than a large page has.
    let mut left = Vec::new();
    for (nr, addr) in written.into_iter().enumerate() {
        if nr % 4 == 0 {
            space.unmap(addr..addr + PAGE).unwrap();
        } else {
            left.push(addr);
        }
    }
    let options = MapOptions::new()
        .page_bytes(2 << 20)
        .policy(Policy::Bind(0));
    let large = space.map_with(2 << 20, &options).unwrap();
    let is_written = space.write(large.start, b"large").is_ok();
    check(&space, &left);
    spaces.verify(&[&space]).unwrap();
    let nr_there = left
        .iter()
        .map(|addr| space.migrate(*addr..addr + PAGE, 0).unwrap().nr_there)
        .sum::<usize>();
    (is_written, left.len() - nr_there)
}

/// Symptom: a page of an area that is bound to a node was on another one. Cause: compaction moved it to wherever there was room.
#[test]
fn a_bound_page_is_moved_within_its_node_only() {
    let (is_written, nr_elsewhere) = large_page_on_a_node_of_scattered_pages(Policy::Bind(0));
    assert_eq!((is_written, nr_elsewhere), (false, 0));
}

#[test]
fn a_page_that_prefers_a_node_makes_room_on_another() {
    let (is_written, nr_elsewhere) = large_page_on_a_node_of_scattered_pages(Policy::Prefer(0));
    assert!(
        is_written && nr_elsewhere > 0,
        "{is_written} {nr_elsewhere}"
    );
}
