//! The loop that all engines of `bench read` stand in, with the same positions, buffers and checks.

use std::fmt::Display;
use std::hint::black_box;

use crate::bench::crew::Op;
use crate::bench::data::{Buffer, Positions};

/// A way to read a file.
pub(super) trait Reader: Send {
    type Error: Display;

    /// Reads from `offset` on into `buf`; returns how many bytes.
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Self::Error>;
}

/// One worker's reads with one engine.
pub(super) struct ReadOp<R, P> {
    reader: R,
    positions: P,
    buffer: Buffer,
}

impl<R: Reader, P: Positions> ReadOp<R, P> {
    pub(super) fn new(reader: R, positions: P, block: usize) -> ReadOp<R, P> {
        ReadOp {
            reader,
            positions,
            buffer: Buffer::new(block),
        }
    }
}

impl<R: Reader, P: Positions> Op for ReadOp<R, P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        // The compiler must not know the length, nor that the bytes are not used.
        let block = self.buffer.block();
        let block = black_box(block);
        let mut positions = self.positions.clone();
        for _ in 0..times {
            let offset = positions.next();
            match self.reader.read(block, offset) {
                Ok(n) if n == block.len() => {}
                Ok(n) => return Err(wrong_length(block.len(), offset, n)),
                Err(error) => return Err(failed(block.len(), offset, &error)),
            }
            black_box(block.as_mut_ptr());
        }
        self.positions = positions;
        Ok(())
    }
}

#[cold]
pub(super) fn wrong_length(wanted: usize, offset: u64, got: usize) -> String {
    format!("a read of {wanted} bytes at offset {offset} gave {got} bytes")
}

#[cold]
pub(super) fn failed(wanted: usize, offset: u64, error: &dyn Display) -> String {
    format!("a read of {wanted} bytes at offset {offset} failed: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::Fixed;

    struct Gives(Result<usize, &'static str>);

    impl Reader for Gives {
        type Error = &'static str;

        fn read(&self, _: &mut [u8], _: u64) -> Result<usize, &'static str> {
            self.0
        }
    }

    #[test]
    fn a_short_read_and_an_error_fail_the_run() {
        let run = |gives| ReadOp::new(Gives(gives), Fixed(5), 64).batch(3);
        assert_eq!(run(Ok(64)), Ok(()));
        assert_eq!(
            run(Ok(63)),
            Err("a read of 64 bytes at offset 5 gave 63 bytes".to_owned())
        );
        assert_eq!(
            run(Err("disk on fire")),
            Err("a read of 64 bytes at offset 5 failed: disk on fire".to_owned())
        );
    }
}
