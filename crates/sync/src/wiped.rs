//! A word that children made by `fork` find empty.

#![allow(unsafe_code)] // A mapping of its own.

use std::ptr::NonNull;

/// The word: std's atomic, in models too, which have no children.
pub use std::sync::atomic::AtomicU64 as Word;

/// A word in a page of memory that the system empties in children: zero there, whatever it was before the fork.
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
    /// A word, which is zero. None where the system cannot do it.
    #[must_use]
    pub fn new() -> Option<Self> {
        // SAFETY: sysconf only reads its argument.
        let bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory that
        // exists.
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
        // SAFETY: the whole of our own mapping, of which only children are to see less.
        if unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) } != 0 {
            return None;
        }
        // Some emulators say yes to any advice, and do nothing.
        // SAFETY: as above; there is no such advice.
        if unsafe { libc::madvise(start, bytes, -1) } == 0 {
            return None;
        }
        Some(wiped)
    }

    /// The word.
    #[inline]
    #[must_use]
    pub fn word(&self) -> &Word {
        // SAFETY: mapped, aligned to a page, zeros or what was stored, and unmapped when dropped.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for WipedOnFork {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; nothing borrows from it any more.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_is_zero_at_first_and_keeps_what_is_stored() {
        // A system may not have it.
        if let Some(wiped) = WipedOnFork::new() {
            assert_eq!(wiped.word().load(Ordering::Relaxed), 0);
            wiped.word().store(7, Ordering::Relaxed);
            assert_eq!(wiped.word().load(Ordering::Relaxed), 7);
        }
    }
}
