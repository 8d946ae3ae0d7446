//! A word that reads zero in children made by `fork`.

#![allow(unsafe_code)] // A mapping of its own.

use std::ptr::NonNull;

/// Type of the word: `std`'s atomic, in models too, which do not fork.
pub use std::sync::atomic::AtomicU64 as Word;

/// A word in a page of memory that the kernel zeros in a forked child.
#[derive(Debug)]
pub struct WipedOnFork {
    start: NonNull<Word>,
    bytes: usize,
}

// SAFETY: an atomic that this value owns.
unsafe impl Send for WipedOnFork {}
// SAFETY: as above.
unsafe impl Sync for WipedOnFork {}

impl WipedOnFork {
    /// Maps a word, initially zero. Returns `None` if the system does not support this.
    #[must_use]
    pub fn new() -> Option<Self> {
        // SAFETY: sysconf only reads its argument.
        let bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        // SAFETY: a new private mapping, placed by the kernel, affects no existing memory.
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
        // Some emulators accept any advice and ignore it.
        // SAFETY: as above; no such advice exists.
        if unsafe { libc::madvise(start, bytes, -1) } == 0 {
            return None;
        }
        Some(wiped)
    }

    /// The word.
    #[inline]
    #[must_use]
    pub fn word(&self) -> &Word {
        // SAFETY: mapped until `self` is dropped, page-aligned, and initialized.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for WipedOnFork {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no borrow of it exists.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_is_zero_at_first_and_keeps_what_is_stored() {
        // Not every system supports this.
        if let Some(wiped) = WipedOnFork::new() {
            assert_eq!(wiped.word().load(Ordering::Relaxed), 0);
            wiped.word().store(7, Ordering::Relaxed);
            assert_eq!(wiped.word().load(Ordering::Relaxed), 7);
        }
    }
}
