//! Memory aligned for direct I/O on any backend.

#![allow(unsafe_code)] // Exclusive access to the words as plain bytes.

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::scaled;

/// Alignment in bytes that suffices for every direct transfer.
const UNIT: usize = 4096;

const WORD: usize = size_of::<AtomicU64>();

#[derive(Debug)]
pub(crate) struct Aligned {
    words: Vec<AtomicU64>,
    start: usize,
    nr_words: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let nr_words = len.div_ceil(WORD);
        // Writes each word, so that the system allocates the memory now, not when memory is short.
        let words: Vec<AtomicU64> = (0..nr_words + UNIT / WORD)
            .map(|_| AtomicU64::new(0))
            .collect();
        let address = words.as_ptr().addr();
        Self {
            start: (address.next_multiple_of(UNIT) - address) / WORD,
            words,
            nr_words,
        }
    }

    pub(crate) fn nr_bytes(&self) -> usize {
        self.words.capacity() * WORD
    }

    pub(crate) fn bytes(&self) -> RacyBytes<'_> {
        RacyBytes::from_words(&self.words[self.start..self.start + self.nr_words])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if scaled(false, true) {
            unreachable!("a model has no bytes in memory");
        }
        let words = &mut self.words[self.start..self.start + self.nr_words];
        let len = size_of_val(words);
        // SAFETY: the words are initialized, have no padding, allow any value, and are exclusively
        // borrowed as long as the bytes. The kernel accesses them only through `bytes`, for
        // requests that have completed before the owner calls this.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_in_both_ways_and_aligned() {
        for len in [4096, 65536] {
            let mut memory = Aligned::new(len);
            assert!(memory.nr_bytes() >= len);
            let bytes = memory.bytes_mut();
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|byte| *byte == 0));
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = (at % 251) as u8;
            }
            let bytes = memory.bytes();
            assert!(bytes.as_ptr().addr().is_multiple_of(4096));
            let mut copy = vec![0; len];
            bytes.copy_to(0, &mut copy);
            assert!(
                copy.iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == (at % 251) as u8)
            );
        }
    }
}
