//! Memory that can be transferred past the operating system's cache: aligned for any storage.

#![allow(unsafe_code)] // Words as plain bytes, for who has them to itself.

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;

/// What all transfers past the operating system's cache are content with.
const UNIT: usize = 4096;

const WORD: usize = size_of::<AtomicU64>();

/// Aligned memory, in words, which is there from the beginning.
#[derive(Debug)]
pub(crate) struct Aligned {
    words: Vec<AtomicU64>,
    /// The first aligned word.
    start: usize,
    nr_words: usize,
}

impl Aligned {
    /// `len` bytes, a multiple of the frame's size; zeros.
    pub(crate) fn new(len: usize) -> Self {
        let nr_words = len.div_ceil(WORD);
        // Each word is written, so the system backs it now, and not when memory is short.
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

    /// How many bytes it takes in all.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.words.capacity() * WORD
    }

    /// The bytes, for transfers.
    pub(crate) fn bytes(&self) -> RacyBytes<'_> {
        RacyBytes::from_words(&self.words[self.start..self.start + self.nr_words])
    }

    /// The bytes, for who has them to itself.
    #[cfg(not(loom))]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let words = &mut self.words[self.start..self.start + self.nr_words];
        let len = size_of_val(words);
        // SAFETY: the words are initialised, have no padding and any value is one of theirs, so they are as many bytes, for as long as they are borrowed;
        // and they are borrowed alone, so nothing else accesses them meanwhile. (What is read by the system is kept from this by its owner, who lends a
        // request `bytes`, and takes this only when the request is done.)
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
    }
}

#[cfg(all(test, not(loom)))]
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
