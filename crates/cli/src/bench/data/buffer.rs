//! Memory that is read into, or written from.

/// Bytes at a place that is the same in every run.
#[derive(Debug)]
pub(in crate::bench) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

/// Buffers begin at this offset in a page. A file's pages and blocks begin at
/// offset 0 in theirs; were the buffer's offset the same, loads of one operation would
/// look to the processor as if they might depend on the stores of the one before,
/// of which it compares only the lower 12 bits.
const OFFSET_IN_PAGE: usize = 2048 + 64;
const PAGE: usize = 4096;

impl Buffer {
    pub(in crate::bench) fn new(len: usize) -> Buffer {
        let bytes = vec![0; len + 2 * PAGE];
        let to_page = (bytes.as_ptr() as usize).wrapping_neg() % PAGE;
        Buffer {
            bytes,
            start: to_page + OFFSET_IN_PAGE,
            len,
        }
    }

    pub(in crate::bench) fn block(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_length_and_place_that_they_should() {
        for len in [1, 64, 4096, 100_000] {
            let mut buffer = Buffer::new(len);
            assert_eq!(buffer.block().len(), len);
            assert_eq!(buffer.block().as_ptr() as usize % PAGE, OFFSET_IN_PAGE);
        }
    }
}
