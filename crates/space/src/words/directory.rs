//! A space's directory: an array of words, reserved for all the addresses that a space may have, and used where there are
//! tables. The same kind of array has a word for each 2 MiB for other purposes ([`crate::areas::noted`]).
//!
//! A directory is a handle, cheap to clone: links of families keep the array of a space that is gone, which is empty then
//! (F2 of [`crate::pages::family`]).

#![allow(unsafe_code)] // A mapping of its own.

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

    /// The memory of a directory.
    #[derive(Debug)]
    struct Mapping {
        start: NonNull<AtomicU64>,
        len: usize,
    }

    // SAFETY: a slice of atomics that this value owns.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    /// Words that begin as zeros.
    #[derive(Clone, Debug)]
    pub(crate) struct Directory {
        /// As in `mapping`: a hit loads them from here.
        start: NonNull<AtomicU64>,
        len: usize,
        /// Keeps the words.
        #[allow(dead_code)] // Held, and not looked at.
        mapping: Arc<Mapping>,
    }

    // SAFETY: stands for a reference to a slice of atomics, which `mapping` keeps.
    unsafe impl Send for Directory {}
    // SAFETY: as above.
    unsafe impl Sync for Directory {}

    impl Directory {
        /// `len` zeros, at least one; none when the system does not give the addresses.
        pub(crate) fn new(len: usize) -> Option<Self> {
            let bytes = len.checked_mul(size_of::<AtomicU64>()).filter(|n| *n > 0)?;
            // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
            // memory that exists.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            // Huge pages would use memory where there are no tables. The advice is a wish.
            // SAFETY: the range was just mapped; the advice does not change its contents.
            let _ = unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
            let start = NonNull::new(start.cast())?;
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
            // SAFETY: mapped, aligned to a page, zeros or what was stored; and unmapped when the last handle is dropped, while
            // the slice borrows this one.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            let bytes = self.len * size_of::<AtomicU64>();
            // SAFETY: the mapping that `new` made; no handle of it is left, and nothing borrows from one.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::Deref;
    use std::sync::Arc;

    use pagewell_sync::atomic::AtomicU64;

    /// Words that begin as zeros: a model's.
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
    /// The word for `addr`; none beyond the addresses of the space.
    #[inline(always)]
    pub(crate) fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.get((addr >> TABLE_SHIFT) as usize)
    }

    /// The words of the tables that span `range`, which is within the addresses of the space.
    pub(crate) fn words(&self, range: &Range<u64>) -> &[AtomicU64] {
        let first = table_of(range.start) as usize;
        let end = range.end.div_ceil(TABLE_BYTES) as usize;
        &self[first..end]
    }

    /// Loads an entry.
    #[inline(always)]
    pub(crate) fn look(word: &AtomicU64) -> Pmd {
        // ORDERING: Acquire; pairs with the release that published the table.
        Pmd::from_bits(word.load(Ordering::Acquire))
    }

    /// Changes an entry, with the lock held that it takes.
    pub(crate) fn set(word: &AtomicU64, pmd: Pmd) {
        // ORDERING: Release; publishes the table, and orders the change before the share is dropped.
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
