//! Arrays of words: creation reserves the addresses, and the first store to a word allocates
//! memory. Arrays created together share a memory mapping, since each takes five system calls.

#![allow(unsafe_code)] // Creates and accesses a memory mapping.

#[cfg(not(loom))]
mod imp {
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use pagewell_sync::atomic::AtomicU64;
    use pagewell_sync::reserve::map_zeros;

    /// Granularity in bytes at which memory is allocated and discarded.
    const UNIT: usize = 4096;

    #[derive(Debug)]
    struct Mapped {
        start: NonNull<u8>,
        bytes: usize,
        /// Whether the system's page size is `UNIT`.
        can_discard: bool,
    }

    // SAFETY: the value owns an address range, and accesses none of its memory.
    unsafe impl Send for Mapped {}
    // SAFETY: as above.
    unsafe impl Sync for Mapped {}

    impl Mapped {
        fn new(bytes: usize) -> Option<Self> {
            let bytes = bytes.max(1);
            Some(Self {
                start: map_zeros(bytes).ok()?,
                bytes,
                can_discard: pagewell_sync::system::page_bytes() == Some(UNIT),
            })
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping of `map_zeros`. Each array has a reference to this value, so no
            // array is left, and no borrow from one.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }

    #[derive(Debug)]
    pub(crate) struct Reserved {
        start: NonNull<AtomicU64>,
        len: usize,
        /// Contains the words. They begin at a multiple of `UNIT` bytes, and no other array has
        /// words in their last unit.
        mapped: Arc<Mapped>,
    }

    // SAFETY: the value owns a slice of atomics.
    unsafe impl Send for Reserved {}
    // SAFETY: as above.
    unsafe impl Sync for Reserved {}

    impl Reserved {
        #[cfg(test)]
        pub(crate) fn new(len: usize) -> Option<Self> {
            let [words] = Self::several([len])?;
            Some(words)
        }

        /// Reserves one array for each of `lens`, all in one mapping. The words are zero. Returns
        /// `None` if the sizes overflow or the system denies the addresses.
        pub(crate) fn several<const N: usize>(lens: [usize; N]) -> Option<[Self; N]> {
            let mut bytes = 0_usize;
            let mut starts = [0; N];
            for (start, len) in starts.iter_mut().zip(lens) {
                *start = bytes;
                let units = len.checked_mul(size_of::<AtomicU64>())?.div_ceil(UNIT);
                bytes = bytes.checked_add(units.checked_mul(UNIT)?)?;
            }
            let mapped = Arc::new(Mapped::new(bytes)?);
            Some(std::array::from_fn(|nr| Self {
                // SAFETY: within the mapping, or at its end if the array is empty.
                start: unsafe { mapped.start.add(starts[nr]) }.cast(),
                len: lens[nr],
                mapped: Arc::clone(&mapped),
            }))
        }

        /// Zeroes the words `first..first + nr` and discards their memory. The range begins and
        /// ends at multiples of 512 words, and no thread stores to it concurrently.
        pub(crate) fn discard(&self, first: usize, nr: usize) {
            let range = &self[first..first + nr];
            if self.mapped.can_discard {
                let bytes = size_of_val(range);
                debug_assert!(bytes.is_multiple_of(UNIT));
                debug_assert!(range.as_ptr().addr().is_multiple_of(UNIT));
                // SAFETY: whole pages of this mapping. They read as zeros afterwards, which are
                // valid words. A thread that loads them concurrently sees the old word or zero.
                let result = unsafe {
                    libc::madvise(range.as_ptr().cast_mut().cast(), bytes, libc::MADV_DONTNEED)
                };
                if result == 0 {
                    return;
                }
            }
            super::zero(range);
        }

        /// Discards the memory of the words `first..first + nr`, which are zero and stay so during
        /// the call. They begin at a multiple of 512 words, and end at one or at the array's end.
        pub(crate) fn discard_zeros(&self, first: usize, nr: usize) {
            let range = &self[first..first + nr];
            let bytes = size_of_val(range);
            debug_assert!(range.as_ptr().addr().is_multiple_of(UNIT));
            debug_assert!(bytes.is_multiple_of(UNIT) || first + nr == self.len);
            if self.mapped.can_discard && nr != 0 {
                // SAFETY: pages of this array, which read as zeros before and after the call;
                // bytes past the end of the array are unused. On failure the memory stays
                // allocated, which is harmless.
                let _ = unsafe {
                    libc::madvise(range.as_ptr().cast_mut().cast(), bytes, libc::MADV_DONTNEED)
                };
            }
        }
    }

    impl Deref for Reserved {
        type Target = [AtomicU64];

        #[inline]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: the words are mapped while `mapped` exists, page-aligned and initialized.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::Deref;

    use pagewell_sync::atomic::AtomicU64;

    #[derive(Debug)]
    pub(crate) struct Reserved(Box<[AtomicU64]>);

    impl Reserved {
        pub(crate) fn several<const N: usize>(lens: [usize; N]) -> Option<[Self; N]> {
            Some(lens.map(|len| Self((0..len).map(|_| AtomicU64::new(0)).collect())))
        }

        pub(crate) fn discard(&self, first: usize, nr: usize) {
            super::zero(&self[first..first + nr]);
        }

        /// Stores zeros instead, so that a model detects concurrent stores to these words.
        pub(crate) fn discard_zeros(&self, first: usize, nr: usize) {
            self.discard(first, nr);
        }
    }

    impl Deref for Reserved {
        type Target = [AtomicU64];

        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }
}

pub(crate) use imp::Reserved;

fn zero(words: &[pagewell_sync::atomic::AtomicU64]) {
    for word in words {
        // ORDERING: Relaxed; the caller publishes that the words are free.
        word.store(0, pagewell_sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pagewell_sync::atomic::Ordering;

    #[test]
    fn discarded_words_are_zeros_and_their_neighbours_stay() {
        let words = Reserved::new(512 * 3).unwrap();
        for word in words.iter() {
            assert_eq!(word.load(Ordering::Relaxed), 0);
            word.store(7, Ordering::Relaxed);
        }
        words.discard(512, 512);
        for (i, word) in words.iter().enumerate() {
            let expected = if (512..1024).contains(&i) { 0 } else { 7 };
            assert_eq!(word.load(Ordering::Relaxed), expected, "word {i}");
        }
    }

    #[test]
    fn zeros_that_are_discarded_can_be_used_again() {
        let words = Reserved::new(512 * 2 + 7).unwrap();
        for (first, nr) in [
            (0, 512),
            (512, 512 + 7),
            (1024, 7),
            (0, 512 * 2 + 7),
            (0, 0),
        ] {
            for word in words.iter() {
                word.store(0, Ordering::Relaxed);
            }
            words.discard_zeros(first, nr);
            for word in words.iter() {
                assert_eq!(word.swap(7, Ordering::Relaxed), 0);
            }
        }
    }

    #[test]
    fn a_terabyte_of_index_uses_nothing_until_it_is_touched() {
        let words = Reserved::new(1 << 37).unwrap();
        assert_eq!(words[(1 << 37) - 1].load(Ordering::Relaxed), 0);
    }

    /// Arrays of one mapping have no words in common. The last one that is dropped unmaps it.
    #[test]
    fn arrays_of_one_mapping_are_independent() {
        const LENS: [usize; 4] = [512 + 1, 0, 3, 1024];
        let arrays = Reserved::several(LENS).unwrap();
        assert_eq!(arrays.each_ref().map(|words| words.len()), LENS);
        for (nr, words) in arrays.iter().enumerate() {
            for word in words.iter() {
                assert_eq!(word.swap(nr as u64 + 1, Ordering::Relaxed), 0);
            }
        }
        let [first, _, third, last] = arrays;
        last.discard(0, 1024);
        assert!(last.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        first[512].store(0, Ordering::Relaxed);
        first.discard_zeros(512, 1);
        drop((first, last));
        assert!(third.iter().all(|word| word.load(Ordering::Relaxed) == 3));
        assert!(Reserved::several([usize::MAX / 8, 1]).is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Reserved::new(usize::MAX).is_none());
        assert!(Reserved::new(1 << 50).is_none());
        assert!(Reserved::new(0).unwrap().is_empty());
    }
}
