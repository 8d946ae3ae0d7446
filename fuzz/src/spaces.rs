//! Decodes bytes into a history of spaces, and runs it against plain bytes, with the code of the test
//! `crates/space/tests/histories.rs`: what it finds is what that looks for, guided by coverage.

#![no_main]

#[path = "../../crates/space/tests/common/mod.rs"]
mod common;

use common::history::{Choices, History};
use libfuzzer_sys::fuzz_target;

/// The most steps of a history.
const MOST_STEPS: usize = 150;

fuzz_target!(|bytes: &[u8]| {
    // The last byte decides, so that the rest decodes alike for both.
    let last = bytes.last().copied().unwrap_or(0);
    // Sometimes so few that they run out.
    let nr_frames = if last & 4 == 0 { 1024 } else { 96 };
    History::new(nr_frames, Bytes { rest: bytes }).run(MOST_STEPS);
});

/// Bytes that are consumed from the front; zeros follow the last.
struct Bytes<'b> {
    rest: &'b [u8],
}

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }
}

impl Choices for Bytes<'_> {
    /// A pattern: which bytes are written matters little, that they differ does.
    fn next_u64(&mut self) -> u64 {
        u64::from(self.u8()).wrapping_mul(0x0102_0408_1020_4081)
    }

    /// By as few bytes as have so many values.
    fn below(&mut self, n: u64) -> u64 {
        let (mut value, mut most) = (0, 1_u64);
        while most < n {
            value = value << 8 | u64::from(self.u8());
            most = most.saturating_mul(256);
        }
        value % n
    }

    fn is_over(&self) -> bool {
        self.rest.is_empty()
    }
}
