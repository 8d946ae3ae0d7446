//! A space's directory: an array of words, reserved for all the addresses that a space may have, and used where there
//! are tables.

#![allow(unsafe_code)] // A mapping of its own.

#[cfg(not(loom))]
mod imp {
    use std::ops::Deref;
    use std::ptr::NonNull;

    use pagewell_sync::atomic::AtomicU64;

    /// Words that begin as zeros.
    #[derive(Debug)]
    pub(crate) struct Directory {
        start: NonNull<AtomicU64>,
        len: usize,
    }

    // SAFETY: a slice of atomics that this value owns.
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
            Some(Self {
                start: NonNull::new(start.cast())?,
                len,
            })
        }
    }

    impl Deref for Directory {
        type Target = [AtomicU64];

        #[inline(always)]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: mapped, aligned to a page, zeros or what was stored, and unmapped when dropped.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            // SAFETY: the mapping that `new` made; nothing borrows from it any more.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), size_of_val(&**self)) };
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::ops::Deref;

    use pagewell_sync::atomic::AtomicU64;

    /// Words that begin as zeros: a model's.
    #[derive(Debug)]
    pub(crate) struct Directory(Box<[AtomicU64]>);

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pagewell_sync::atomic::Ordering;

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
