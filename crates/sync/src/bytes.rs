//! Memory that other threads may be writing, and the copy out of it.
#![allow(unsafe_code)] // Reason: raw memory and inline assembly are what this module wraps.

pub mod portable;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86_64;

use std::fmt;
#[cfg(not(loom))]
use std::marker::PhantomData;
use std::mem::MaybeUninit;
#[cfg(not(loom))]
use std::ptr::NonNull;

use crate::atomic::AtomicU64;

/// Bytes of a word, the unit in which the portable copy accesses memory.
const WORD: usize = size_of::<u64>();

/// Memory that other threads may be reading or writing at the same time.
#[cfg(not(loom))]
#[derive(Clone, Copy)]
pub struct RacyBytes<'a> {
    ptr: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a [AtomicU64]>,
}

/// Memory that other threads may be reading or writing at the same time.
#[cfg(loom)]
#[derive(Clone, Copy)]
pub struct RacyBytes<'a> {
    words: &'a [AtomicU64],
    off: usize,
    len: usize,
}

// SAFETY: a `RacyBytes` is a shared reference to memory that, by the duties of `new`, any thread may
// access through it at any time.
#[cfg(not(loom))]
unsafe impl Send for RacyBytes<'_> {}
// SAFETY: as for `Send`.
#[cfg(not(loom))]
unsafe impl Sync for RacyBytes<'_> {}

impl fmt::Debug for RacyBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RacyBytes")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<'a> RacyBytes<'a> {
    /// The `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// - (a) Every aligned 8-byte word that overlaps the range is valid for reads and writes for
    ///   `'a`, and initialised.
    /// - (b) For `'a`, every access to these words by Rust code that may race with another goes through a
    ///   `RacyBytes`. (System calls are not Rust code.)
    #[cfg(not(loom))]
    #[must_use]
    #[inline]
    pub const unsafe fn new(ptr: NonNull<u8>, len: usize) -> Self {
        Self {
            ptr,
            len,
            memory: PhantomData,
        }
    }

    /// The bytes of `words`.
    #[cfg(loom)]
    #[must_use]
    pub fn from_words(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            off: 0,
            len: words.len() * WORD,
        }
    }

    /// How many bytes these are.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether these are no bytes at all.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    #[track_caller]
    #[inline]
    fn check(self, off: usize, len: usize) {
        assert!(
            off.checked_add(len).is_some_and(|end| end <= self.len),
            "racy bytes: range out of bounds"
        );
    }

    /// The `len` bytes from `off` on.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(self, off: usize, len: usize) -> RacyBytes<'a> {
        self.check(off, len);
        #[cfg(not(loom))]
        {
            // SAFETY: the range is within these bytes, as checked.
            let ptr = unsafe { self.ptr.add(off) };
            RacyBytes { ptr, len, ..self }
        }
        #[cfg(loom)]
        {
            RacyBytes {
                off: self.off + off,
                len,
                ..self
            }
        }
    }

    /// The first byte, for system calls.
    #[cfg(not(loom))]
    #[must_use]
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Copies the bytes from `off` on to `dst`.
    #[inline]
    #[track_caller]
    pub fn copy_to(self, off: usize, dst: &mut [u8]) {
        self.check(off, dst.len());
        // SAFETY: (a) the range was checked; (b) `dst` is exclusive.
        unsafe { self.copy_to_unchecked(off, dst.as_mut_ptr(), dst.len()) }
    }

    /// Copies `len` bytes from `off` on to `dst`.
    ///
    /// # Safety
    ///
    /// - (a) `off + len` is at most `self.len()`.
    /// - (b) `dst` is valid for writes of `len` bytes that nobody else accesses, outside these bytes.
    #[inline]
    pub unsafe fn copy_to_unchecked(self, off: usize, dst: *mut u8, len: usize) {
        #[cfg(loom)]
        self.check(off, len);
        let (words, off) = self.words(off, len);
        // SAFETY: duty (b).
        let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast::<MaybeUninit<u8>>(), len) };
        portable::copy_out(words, off, dst);
    }

    /// Copies `src` to the bytes from `off` on.
    #[inline]
    #[track_caller]
    pub fn copy_from(self, off: usize, src: &[u8]) {
        self.check(off, src.len());
        let (words, off) = self.words(off, src.len());
        portable::copy_in(words, off, src);
    }

    /// Makes the `len` bytes from `off` on zero.
    #[inline]
    #[track_caller]
    pub fn zero(self, off: usize, len: usize) {
        self.check(off, len);
        let (words, off) = self.words(off, len);
        portable::zero(words, off, len);
    }

    #[cfg(loom)]
    fn words(self, off: usize, _len: usize) -> (&'a [AtomicU64], usize) {
        (self.words, self.off + off)
    }

    #[cfg(not(loom))]
    fn words(self, off: usize, len: usize) -> (&'a [AtomicU64], usize) {
        let first = self.ptr.as_ptr().wrapping_add(off);
        let lead = first.addr() % WORD;
        let base = first.wrapping_sub(lead).cast::<AtomicU64>();
        let nr_words = if len == 0 {
            0
        } else {
            (lead + len).div_ceil(WORD)
        };
        // SAFETY: (a) and (b) of `new`.
        (unsafe { std::slice::from_raw_parts(base, nr_words) }, lead)
    }
}
