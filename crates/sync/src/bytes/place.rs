//! Location of the bytes that other threads may be writing.

use std::fmt;
#[cfg(not(loom))]
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::atomic::AtomicU64;

/// Bytes that the portable copy accesses at a time.
pub(super) const WORD: usize = size_of::<u64>();

/// Memory that other threads may be reading or writing concurrently. After a copy that raced with a
/// write, each byte is one that some write stored. The caller must validate, by the
/// [protocol](super), that all bytes are of one write.
#[derive(Clone, Copy)]
pub struct RacyBytes<'a> {
    #[cfg(not(loom))]
    ptr: NonNull<u8>,
    #[cfg(not(loom))]
    memory: PhantomData<&'a [AtomicU64]>,
    #[cfg(loom)]
    words: &'a [AtomicU64],
    /// Offset of the first byte in the words, in bytes.
    #[cfg(loom)]
    start: usize,
    len: usize,
}

// SAFETY: by the obligations of `new`, any thread may access the memory at any time, as through a
// `&[AtomicU64]`, which is `Send` and `Sync`.
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

/// A read-only [`RacyBytes`], without a safe way to change the bytes. Owners of bytes that must not
/// be changed, such as a read-only pin of a page, hand out this type.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RacySource<'a>(pub(super) RacyBytes<'a>);

impl<'a> From<RacyBytes<'a>> for RacySource<'a> {
    #[inline(always)]
    fn from(bytes: RacyBytes<'a>) -> Self {
        bytes.source()
    }
}

impl fmt::Debug for RacySource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RacySource")
            .field("len", &self.0.len)
            .finish_non_exhaustive()
    }
}

impl<'a> RacySource<'a> {
    /// Number of bytes.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the length is zero.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Pointer to the first byte, for system calls that read the bytes.
    #[must_use]
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.0.as_ptr()
    }

    /// Like [`RacyBytes::slice`].
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(self, off: usize, len: usize) -> RacySource<'a> {
        RacySource(self.0.slice(off, len))
    }

    /// Returns the `len` bytes from `off` on, or `None` if they are not all in `self`.
    #[must_use]
    #[inline(always)]
    pub fn get(self, off: usize, len: usize) -> Option<RacySource<'a>> {
        if !self.0.has(off, len) {
            return None;
        }
        // SAFETY: (r) was just checked.
        Some(RacySource(unsafe { self.0.part(off, len) }))
    }
}

#[cfg(not(loom))]
impl<'a> RacyBytes<'a> {
    /// Refers to the `len` bytes at `ptr`, which need not be aligned.
    ///
    /// # Safety
    ///
    /// - (a) Every aligned 8-byte word that contains one of these bytes is initialized, and valid
    ///   for reads and writes, for all of `'a`.
    /// - (b) During `'a`, if two accesses by Rust code to one of these words may race and at least
    ///   one of them writes, both go through a `RacyBytes` or an `AtomicU64` at that word. The
    ///   kernel's accesses in a system call are not accesses by Rust code.
    #[must_use]
    #[inline]
    pub const unsafe fn new(ptr: NonNull<u8>, len: usize) -> Self {
        Self {
            ptr,
            memory: PhantomData,
            len,
        }
    }

    /// The bytes of `words`.
    #[must_use]
    #[inline]
    pub fn from_words(words: &'a [AtomicU64]) -> Self {
        // SAFETY: (a) the borrowed words are aligned and initialized, and an atomic may be written
        // through a shared reference. (b) Rust code accesses borrowed words only as atomics.
        unsafe { Self::new(NonNull::from(words).cast(), size_of_val(words)) }
    }

    /// Pointer to the first byte, for system calls.
    #[must_use]
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Returns the `len` bytes from `off` on. Safety: (r) these bytes are in `self`.
    #[inline]
    pub(super) unsafe fn part(self, off: usize, len: usize) -> Self {
        // SAFETY: by (r) the offset is within the bytes, whose memory is valid by (a) of `new`.
        let ptr = unsafe { self.ptr.add(off) };
        Self { ptr, len, ..self }
    }

    /// Returns the words that contain the bytes, and the offset in bytes of the first byte in them.
    #[inline]
    pub(super) fn words(self) -> (&'a [AtomicU64], usize) {
        if self.len == 0 {
            // The `ptr` of an empty range is arbitrary.
            return (&[], 0);
        }
        let start = self.ptr.addr().get() % WORD;
        let nr_words = (start + self.len).div_ceil(WORD);
        let first = self.as_ptr().wrapping_sub(start).cast();
        // SAFETY: these are the words of (a), aligned; by (b) no racing access is non-atomic.
        let words = unsafe { std::slice::from_raw_parts(first, nr_words) };
        (words, start)
    }
}

#[cfg(loom)]
impl<'a> RacyBytes<'a> {
    /// Refers to bytes in memory. A model has no such bytes.
    ///
    /// # Safety
    ///
    /// None: this function panics.
    pub unsafe fn new(_: NonNull<u8>, _: usize) -> Self {
        unreachable!("a model has no bytes in memory")
    }

    /// The bytes of `words`.
    #[must_use]
    pub fn from_words(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            start: 0,
            len: words.len() * WORD,
        }
    }

    /// Pointer to the first byte. No bytes are there: each word of a model is an object of loom.
    pub fn as_ptr(self) -> *mut u8 {
        unreachable!("a model has no bytes in memory")
    }

    /// Checks the range, unlike the version for other builds.
    pub(super) unsafe fn part(self, off: usize, len: usize) -> Self {
        self.check(off, len);
        let start = self.start + off;
        Self { start, len, ..self }
    }

    pub(super) fn words(self) -> (&'a [AtomicU64], usize) {
        (self.words, self.start)
    }
}

impl<'a> RacyBytes<'a> {
    /// The same bytes, read-only.
    #[must_use]
    #[inline(always)]
    pub const fn source(self) -> RacySource<'a> {
        RacySource(self)
    }

    /// Number of bytes.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns `true` if the length is zero.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the `len` bytes from `off` on. Panics if they are not all in `self`.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(self, off: usize, len: usize) -> RacyBytes<'a> {
        self.check(off, len);
        // SAFETY: (r) was just checked.
        unsafe { self.part(off, len) }
    }

    #[inline]
    #[track_caller]
    pub(super) fn check(self, off: usize, len: usize) {
        assert!(self.has(off, len), "range outside the racy bytes");
    }

    #[inline(always)]
    pub(super) const fn has(self, off: usize, len: usize) -> bool {
        off <= self.len && len <= self.len - off
    }
}
