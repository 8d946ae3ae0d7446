//! `pread` into one of many buffers after the other: what a miss cannot do without.

use std::fs::File;
use std::hint::black_box;

use crate::bench::cases::read::reader::{failed, wrong_length};
use crate::bench::crew::Op;
use crate::bench::data::{Memory, Positions};
use crate::failure::Failure;

/// Buffers that are used in turn.
pub(super) struct Ring {
    memory: Memory,
    /// From the beginning of one buffer to that of the next.
    stride: usize,
    next: usize,
}

impl Ring {
    /// As many buffers of `stride` bytes as `bytes` have room for, and one at least. All of them are written to here.
    pub(super) fn new(bytes: usize, stride: usize, huge_pages: bool) -> Result<Ring, Failure> {
        let nr = (bytes / stride).max(1);
        Ok(Ring {
            memory: Memory::new(nr * stride, huge_pages)?,
            stride,
            next: 0,
        })
    }

    /// The buffer whose turn it is.
    #[inline(always)]
    fn next(&mut self) -> &mut [u8] {
        let bytes = self.memory.bytes_mut();
        let at = self.next;
        self.next = if at + 2 * self.stride <= bytes.len() {
            at + self.stride
        } else {
            0
        };
        &mut bytes[at..at + self.stride]
    }
}

/// One worker's reads into its ring.
pub(super) struct RingOp<P> {
    file: File,
    positions: P,
    ring: Ring,
    block: usize,
}

impl<P: Positions> RingOp<P> {
    pub(super) fn new(file: File, positions: P, ring: Ring, block: usize) -> RingOp<P> {
        RingOp {
            file,
            positions,
            ring,
            block,
        }
    }
}

impl<P: Positions> Op for RingOp<P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let len = black_box(self.block);
        for _ in 0..times {
            let offset = self.positions.next();
            let buffer = &mut self.ring.next()[..len];
            match rustix::io::pread(&self.file, &mut *buffer, offset) {
                Ok(n) if n == len => {}
                Ok(n) => return Err(wrong_length(len, offset, n)),
                Err(error) => return Err(failed(len, offset, &error)),
            }
            black_box(buffer.as_mut_ptr());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::Fixed;
    use std::io::Write;

    #[test]
    fn every_buffer_has_its_turn() {
        let mut ring = Ring::new(3 * 4096 + 100, 4096, false).unwrap();
        let mut turn = || ring.next().as_ptr() as usize;
        let first = turn();
        let others = [turn(), turn(), turn(), turn()].map(|at| at - first);
        assert_eq!(others, [4096, 8192, 0, 4096]);
        let mut one = Ring::new(100, 4096, false).unwrap();
        assert_eq!(one.next().as_ptr(), one.next().as_ptr());
    }

    #[test]
    fn a_short_read_fails_the_run() {
        let mut file = pagewell_testkit::scratch::file().into_file();
        file.write_all(&[7; 6000]).unwrap();
        let op = |offset| {
            let ring = Ring::new(8192, 4096, false).unwrap();
            RingOp::new(file.try_clone().unwrap(), Fixed(offset), ring, 4096).batch(3)
        };
        assert_eq!(op(100), Ok(()));
        assert!(op(4096).unwrap_err().contains("gave 1904 bytes"));
    }
}
