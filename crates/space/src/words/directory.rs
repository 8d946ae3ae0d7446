//! Directory of a space: an array with a word for each 2 MiB of its addresses, reserved as a whole.
//! It uses memory only where tables exist. [`crate::areas::noted`] has such an array, too.
//!
//! Links keep the directory, empty, after the end of its space (F2 of [`crate::pages::family`]).

#![allow(unsafe_code)] // Maps and unmaps memory.

use std::ops::Range;

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::words::geometry::{TABLE_BYTES, TABLE_SHIFT, table_of};
use crate::words::pmd::Pmd;

#[cfg(not(loom))]
mod imp {
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use pagewell_sync::atomic::AtomicU64;
    use pagewell_sync::reserve::map_zeros;

    #[derive(Debug)]
    struct Mapping {
        start: NonNull<AtomicU64>,
        len: usize,
    }

    // SAFETY: a slice of atomics that this value owns.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    #[derive(Clone, Debug)]
    pub(crate) struct Directory {
        /// Copy of the field of `mapping`, as is `len`, so that a hit loads both from this value.
        start: NonNull<AtomicU64>,
        len: usize,
        #[allow(dead_code)] // Never read.
        mapping: Arc<Mapping>,
    }

    // SAFETY: a directory is a reference to a slice of atomics, which `mapping` keeps mapped.
    unsafe impl Send for Directory {}
    // SAFETY: as above.
    unsafe impl Sync for Directory {}

    impl Directory {
        /// Reserves `len` words of zeros. Returns `None` if `len` is 0 or no addresses are left.
        pub(crate) fn new(len: usize) -> Option<Self> {
            let bytes = len.checked_mul(size_of::<AtomicU64>()).filter(|n| *n > 0)?;
            let start = map_zeros(bytes).ok()?.cast();
            let mapping = Arc::new(Mapping { start, len });
            Some(Self {
                start,
                len,
                mapping,
            })
        }
    }

    impl Deref for Directory {
        type Target = [AtomicU64];

        #[inline(always)]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: the memory is mapped, aligned to a page, and initialized. It is unmapped when
            // the last handle is dropped, and the slice borrows this handle.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            let bytes = self.len * size_of::<AtomicU64>();
            // SAFETY: `map_zeros` created this mapping, and no handle or borrow of one is left.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::Deref;
    use std::sync::Arc;

    use pagewell_sync::atomic::AtomicU64;

    #[derive(Clone, Debug)]
    pub(crate) struct Directory(Arc<[AtomicU64]>);

    impl Directory {
        pub(crate) fn new(len: usize) -> Option<Self> {
            Some(Self((0..len).map(|_| AtomicU64::new(0)).collect()))
        }
    }

    impl Deref for Directory {
        type Target = [AtomicU64];

        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }
}

pub(crate) use imp::Directory;

impl Directory {
    #[inline(always)]
    pub(crate) fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.get((addr >> TABLE_SHIFT) as usize)
    }

    /// Returns the words of the tables that span `range`, which must be within the space.
    pub(crate) fn words(&self, range: &Range<u64>) -> &[AtomicU64] {
        let first = table_of(range.start) as usize;
        let end = range.end.div_ceil(TABLE_BYTES) as usize;
        &self[first..end]
    }

    #[inline(always)]
    pub(crate) fn look(word: &AtomicU64) -> Pmd {
        // ORDERING: Acquire; pairs with the release that published the table.
        Pmd::from_bits(word.load(Ordering::Acquire))
    }

    /// Stores an entry. Other modules call [`crate::tables::of_space::PageTables::set`].
    pub(crate) fn set(word: &AtomicU64, pmd: Pmd) {
        // ORDERING: Release; publishes the table, before the share of a replaced one is dropped.
        word.store(pmd.bits(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_directory_begins_empty_and_uses_nothing_until_it_is_touched() {
        let words = Directory::new(1 << 37).unwrap();
        assert_eq!(words[(1 << 37) - 1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Directory::new(usize::MAX).is_none());
        assert!(Directory::new(1 << 50).is_none());
        assert!(Directory::new(0).is_none());
    }
}
