//! Thousands of random histories over tens of spaces, against plain bytes.
#![cfg(not(loom))]

mod common;

use common::history::History;
use pagewell_frame::refcount::{CasLoop, LockBit, RefScheme};
use pagewell_testkit::Seed;

fn histories<S: RefScheme + 'static>(nr: u64, nr_frames: usize, nr_steps: usize) {
    let seed = Seed::of_run();
    for part in 0..nr {
        History::<S, _>::new(nr_frames, seed.part(part)).run(nr_steps);
    }
}

#[test]
fn spaces_are_what_plain_bytes_are() {
    histories::<LockBit>(2000, 2048, 120);
}

#[test]
fn spaces_are_what_plain_bytes_are_when_frames_run_out() {
    histories::<LockBit>(1000, 96, 150);
}

#[test]
fn spaces_are_what_plain_bytes_are_with_the_other_count() {
    histories::<CasLoop>(200, 512, 150);
}
