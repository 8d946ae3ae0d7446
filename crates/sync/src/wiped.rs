//! A word that reads zero in children made by `fork`.

#![allow(unsafe_code)] // Maps and unmaps memory.

use std::ptr::NonNull;

use crate::system;

/// `std`'s atomic even in models, which do not fork.
pub use std::sync::atomic::AtomicU64 as Word;

/// A word in a page of memory that the kernel zeros in a forked child.
#[derive(Debug)]
pub struct WipedOnFork {
    start: NonNull<Word>,
    bytes: usize,
}

// SAFETY: the value owns its mapping, which has only an atomic.
unsafe impl Send for WipedOnFork {}
// SAFETY: as above.
unsafe impl Sync for WipedOnFork {}

impl WipedOnFork {
    /// Maps a page with the word, initially 0. Returns `None` without memory or `MADV_WIPEONFORK`.
    #[must_use]
    pub fn new() -> Option<Self> {
        let bytes = system::page_bytes()?;
        // SAFETY: a new private mapping, at an address of the kernel's choice, affects no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let wiped = Self {
            start: NonNull::new(start.cast())?,
            bytes,
        };
        // SAFETY: the advice covers exactly this mapping, and affects only children.
        if unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) } != 0 {
            return None;
        }
        // Some emulators accept and ignore any advice, so one that does not exist must be refused.
        // SAFETY: as above; no advice has the number -1.
        if unsafe { libc::madvise(start, bytes, -1) } == 0 {
            return None;
        }
        Some(wiped)
    }

    /// The word.
    #[inline]
    #[must_use]
    pub fn word(&self) -> &Word {
        // SAFETY: the page is mapped until `self` is dropped, aligned, and zeroed by the kernel.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for WipedOnFork {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` created, of whose word no borrow exists.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_is_zero_at_first_and_keeps_what_is_stored() {
        if let Some(wiped) = WipedOnFork::new() {
            assert_eq!(wiped.word().load(Ordering::Relaxed), 0);
            wiped.word().store(7, Ordering::Relaxed);
            assert_eq!(wiped.word().load(Ordering::Relaxed), 7);
        }
    }
}
