//! What is written: a few blocks of pseudo-random bytes, in turns.
//!
//! The bytes are ready before anything is timed, and are not changed: a copy of bytes that were just stored would wait
//! for the stores, in every engine. That the blocks differ tells which write a block in the file is of.

use std::hint::black_box;

use crate::bench::data::{Buffer, Rng};

/// Blocks of one length.
#[derive(Debug)]
pub(super) struct Blocks {
    buffer: Buffer,
    len: usize,
    nr: usize,
}

/// Blocks together have about so many bytes, that they stay in the processor's nearest cache.
const BYTES: usize = 16 << 10;
const LEAST: usize = 3;
/// No power of two, so that a block and the position that it is written to are not in step.
const MOST: usize = 61;

impl Blocks {
    pub(super) fn new(len: usize, seed: u64) -> Blocks {
        let nr = (BYTES / len.max(1)).clamp(LEAST, MOST);
        let mut buffer = Buffer::new(len * nr);
        let mut rng = Rng::new(seed);
        for word in buffer.block().chunks_mut(8) {
            word.copy_from_slice(&rng.next().to_le_bytes()[..word.len()]);
        }
        Blocks { buffer, len, nr }
    }

    /// The block of write number `nr`, counted from 0.
    pub(super) fn of(&mut self, nr: u64) -> &[u8] {
        let at = self.turn_of(nr);
        &self.buffer.block()[at * self.len..][..self.len]
    }

    /// Which of the blocks that is.
    pub(super) fn turn_of(&self, nr: u64) -> usize {
        (nr % self.nr as u64) as usize
    }

    /// The blocks one after the other, from that of write number `nr` on, for a timed loop.
    #[inline(always)]
    pub(super) fn from(&mut self, nr: u64) -> InTurn<'_> {
        let turn = self.turn_of(nr);
        InTurn {
            len: self.len,
            next: turn * self.len,
            // The compiler must not know the bytes, nor how many there are.
            bytes: black_box(self.buffer.block()),
        }
    }
}

/// Blocks without an end.
pub(super) struct InTurn<'b> {
    bytes: &'b [u8],
    len: usize,
    next: usize,
}

impl<'b> InTurn<'b> {
    #[inline(always)]
    pub(super) fn next(&mut self) -> &'b [u8] {
        let block = &self.bytes[self.next..][..self.len];
        self.next += self.len;
        if self.next >= self.bytes.len() {
            self.next = 0;
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_differ_and_come_again_in_turn() {
        for len in [8, 64, 4096, 100_000] {
            let mut blocks = Blocks::new(len, 7);
            let nr = blocks.nr as u64;
            assert!((LEAST..=MOST).contains(&blocks.nr));
            let first: Vec<Vec<u8>> = (0..nr).map(|at| blocks.of(at).to_vec()).collect();
            for at in 1..nr as usize {
                assert_ne!(first[0], first[at]);
            }
            assert_eq!(blocks.of(nr + 1), first[1]);
            let mut in_turn = blocks.from(nr - 1);
            assert_eq!(in_turn.next(), first[nr as usize - 1]);
            assert_eq!(in_turn.next(), first[0]);
            assert_eq!(in_turn.next(), first[1]);
        }
    }

    #[test]
    fn another_seed_gives_other_bytes() {
        assert_ne!(Blocks::new(64, 1).of(0), Blocks::new(64, 2).of(0));
    }
}
