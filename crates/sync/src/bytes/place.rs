//! Where the bytes are that other threads may be writing.

use std::fmt;
#[cfg(not(loom))]
use std::marker::PhantomData;
#[cfg(not(loom))]
use std::ptr::NonNull;

use crate::atomic::AtomicU64;

/// Bytes of a word, the unit in which the portable copy accesses memory.
pub(super) const WORD: usize = size_of::<u64>();

/// Memory that other threads may be reading or writing at the same time.
///
/// A reference to bytes, but for what it promises: nothing about the values, which may differ each
/// time one looks. A copy that raced with a write has, in each byte, what some write left there;
/// that it is of one write is for the caller to find out, by the [protocol](super).
#[derive(Clone, Copy)]
pub struct RacyBytes<'a> {
    #[cfg(not(loom))]
    ptr: NonNull<u8>,
    #[cfg(not(loom))]
    memory: PhantomData<&'a [AtomicU64]>,
    /// Words that have all the bytes.
    #[cfg(loom)]
    words: &'a [AtomicU64],
    /// Where in them the bytes begin.
    #[cfg(loom)]
    start: usize,
    len: usize,
}

// SAFETY: by the duties of `new`, any thread may access the memory at any time, as it may through
// the `&[AtomicU64]` that this stands for.
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

/// As [`RacyBytes`], to be read only: there is no safe way from here to change them.
///
/// What takes bytes to read them takes these ([`RacyBytes::copy_from_racy`], the writes of a storage), and what may
/// hand out bytes that their owner relies on, as those of a pinned page, hands out these.
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
    /// How many bytes these are.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether these are no bytes at all.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The first byte, for system calls that read.
    #[cfg(not(loom))]
    #[must_use]
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.0.as_ptr()
    }

    /// The `len` bytes from `off` on.
    ///
    /// # Panics
    ///
    /// When they are not all in `self`.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(self, off: usize, len: usize) -> RacySource<'a> {
        RacySource(self.0.slice(off, len))
    }

    /// The `len` bytes from `off` on, if all of them are in `self`.
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

/// Where the bytes are: in memory.
#[cfg(not(loom))]
impl<'a> RacyBytes<'a> {
    /// The `len` bytes at `ptr`, which need not be aligned.
    ///
    /// # Safety
    ///
    /// - (a) Every aligned 8-byte word that has one of these bytes is initialised, and valid for
    ///   reads and writes, for all of `'a`.
    /// - (b) During `'a`, every access by Rust code to one of these words that may race with
    ///   another one, of which either writes, goes through a `RacyBytes` or an `AtomicU64` at that
    ///   word. What the kernel does in a system call is no access by Rust code.
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
        // SAFETY: (a) the words are borrowed for `'a`, and are aligned and initialised; an atomic may be written through a shared reference. (b)
        // While they are borrowed, they are accessed as atomics.
        unsafe { Self::new(NonNull::from(words).cast(), size_of_val(words)) }
    }

    /// The first byte, for system calls.
    #[must_use]
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The `len` bytes from `off` on.
    ///
    /// # Safety
    ///
    /// (r) They are in `self`.
    #[inline]
    pub(super) unsafe fn part(self, off: usize, len: usize) -> Self {
        // SAFETY: (r), and (a) of `new` says that the memory is valid up to there.
        let ptr = unsafe { self.ptr.add(off) };
        Self { ptr, len, ..self }
    }

    /// The words that have the bytes, and where in them these begin.
    #[inline]
    pub(super) fn words(self) -> (&'a [AtomicU64], usize) {
        if self.len == 0 {
            // There is no word that has them, and `ptr` may be anything.
            return (&[], 0);
        }
        let start = self.ptr.addr().get() % WORD;
        let nr_words = (start + self.len).div_ceil(WORD);
        let first = self.as_ptr().wrapping_sub(start).cast();
        // SAFETY: these are the words of (a), aligned, and by (b) accessed as if they were atomics.
        let words = unsafe { std::slice::from_raw_parts(first, nr_words) };
        (words, start)
    }
}

/// Where the bytes are: in the atomics of loom.
#[cfg(loom)]
impl<'a> RacyBytes<'a> {
    /// The bytes of `words`.
    #[must_use]
    pub fn from_words(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            start: 0,
            len: words.len() * WORD,
        }
    }

    /// As without loom, and checked.
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
    /// The same bytes, to be read only.
    #[must_use]
    #[inline(always)]
    pub const fn source(self) -> RacySource<'a> {
        RacySource(self)
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

    /// The `len` bytes from `off` on.
    ///
    /// # Panics
    ///
    /// When they are not all in `self`.
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
        assert!(self.has(off, len), "a range that is not in the racy bytes");
    }

    /// Whether the `len` bytes from `off` on are all in `self`.
    #[inline(always)]
    pub(super) const fn has(self, off: usize, len: usize) -> bool {
        off <= self.len && len <= self.len - off
    }
}
