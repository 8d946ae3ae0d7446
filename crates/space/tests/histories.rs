//! Thousands of random histories over tens of spaces, against plain bytes.
#![cfg(not(loom))]

mod common;

use common::history::History;
use pagewell_testkit::Seed;

fn histories(nr: u64, nr_frames: usize, nr_steps: usize) {
    let seed = Seed::of_run();
    for part in 0..nr {
        History::new(nr_frames, seed.part(part)).run(nr_steps);
    }
}

#[test]
fn spaces_are_what_plain_bytes_are() {
    histories(2000, 2048, 120);
}

#[test]
fn spaces_are_what_plain_bytes_are_when_frames_run_out() {
    histories(1000, 96, 150);
}

#[test]
fn spaces_are_what_plain_bytes_are_when_frames_are_scarce() {
    histories(200, 512, 150);
}
