//! Memory aligned for direct I/O on any backend.

#![allow(unsafe_code)] // Exclusive access to the words as plain bytes.

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::scaled;

const WORD: usize = size_of::<AtomicU64>();

/// Zeroed memory for transfers, aligned as direct I/O requires.
#[derive(Debug)]
pub struct Aligned {
    words: Vec<AtomicU64>,
    /// First word of the aligned part.
    start: usize,
    len: usize,
}

impl Aligned {
    /// Alignment in bytes that suffices for every direct transfer.
    pub const MOST_UNIT: usize = 4096;

    /// Allocates `len` bytes aligned to `unit`. Panics unless that is a power of two.
    #[must_use]
    pub fn new(len: usize, unit: usize) -> Self {
        assert!(unit.is_power_of_two(), "alignment of {unit} bytes");
        // Writes each word, so that the system allocates the memory now, not when memory is short.
        let words: Vec<AtomicU64> = (0..(len + unit).div_ceil(WORD))
            .map(|_| AtomicU64::new(0))
            .collect();
        let address = words.as_ptr().addr();
        Self {
            // The words are aligned to 8 bytes, so this is a number of words for smaller units too.
            start: (address.next_multiple_of(unit) - address) / WORD,
            words,
            len,
        }
    }

    /// Returns the number of bytes that are allocated.
    #[must_use]
    pub fn nr_bytes(&self) -> usize {
        self.words.capacity() * WORD
    }

    /// Returns the aligned bytes, which may be accessed concurrently.
    #[must_use]
    pub fn bytes(&self) -> RacyBytes<'_> {
        RacyBytes::from_words(&self.words[self.start..]).slice(0, self.len)
    }

    /// Returns the aligned bytes. In a model, panics.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if scaled(false, true) {
            unreachable!("a model has no bytes in memory");
        }
        let words = &mut self.words[self.start..];
        // SAFETY: the words are initialized, have no padding, allow any value, and are exclusively
        // borrowed as long as the bytes. The kernel accesses them only through `bytes`, for
        // requests that have completed before the owner calls this.
        let all = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words))
        };
        &mut all[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_in_both_ways_and_aligned() {
        let lens = [1, 511, 4096, 65536].into_iter();
        for (len, unit) in lens.flat_map(|len| [1, 4, 512, 4096].map(|unit| (len, unit))) {
            let mut memory = Aligned::new(len, unit);
            assert!(memory.nr_bytes() >= len);
            let bytes = memory.bytes_mut();
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|byte| *byte == 0));
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = (at % 251) as u8;
            }
            let bytes = memory.bytes();
            assert!(bytes.as_ptr().addr().is_multiple_of(unit));
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
