//! Memory that other threads may be writing, and the copies from it and to it.
//!
//! [`RacyBytes`] is what the bytes of a page are handed out as: readers copy them without a lock
//! while a writer may be at work, and find out afterwards whether what they got is whole. A plain
//! copy would be a data race, which is undefined whether or not anybody looks at its result. So
//! there are two implementations that are not: assembly at the speed of `memcpy` for x86-64, and
//! relaxed atomics ([`portable`]) for other processors, loom, Miri and ThreadSanitizer.
//!
//! # Protocol
//!
//! The sequence word is the caller's. It is odd while a writer is at work, and never repeats.
//!
//! ```text
//!     writer                                  reader
//!     W1  word.store(odd, Relaxed)            R1  word.load(Acquire), even
//!     W2  fence(Release)                      R2  bytes.copy_to(..)
//!     W3  bytes.copy_from(..) or zero(..)     R3  fence(Acquire)
//!     W4  word.store(even, Release)           R4  word.load(Relaxed), the same as in R1?
//! ```
//!
//! - E1: if R1 reads what W4 stored, then W3 happens before R2, which gets the bytes of W3 or later
//!   ones.
//! - E2: if R2 gets any byte that W3 stored, then the fences W2 and R3 synchronise, so R4 reads
//!   what W1 stored, or something later, and the reader discards its copy.
//!
//! What this module promises for both to hold:
//!
//! - P1: for the language, each byte is read by a relaxed load of the aligned `AtomicU64` that has
//!   it, and written by a relaxed read-modify-write of it (a store, if all its bytes are written).
//!   This is what the portable copy does. The assembly is an opaque function, of which the language
//!   needs to know no more than a story that its effects agree with, and this is the story: it
//!   writes no byte, and gets or leaves no value, that such loads and stores could not.
//! - P2: the loads of R2 are done before R4, and the stores of W3 after W1 and before W4. For the
//!   portable copy this follows from P1 and the fences. For the assembly it takes an argument.
//!
//! The bytes of one copy may be of different writers and in any order (tearing); the word tells.
//!
//! # Why the assembly keeps P2
//!
//! *The compiler.* No `asm!` here has the options `pure`, `nomem` or `readonly`. So each may read
//! and write all memory that it could reach, and may synchronise, as far as the compiler knows: no
//! atomic access, fence or other `asm!` moves across it, and it is not removed, repeated or split.
//!
//! *The processor.* Frames are ordinary write-back memory, for which both vendors promise that
//! loads are not reordered with older loads, nor stores with older stores or older loads (Intel,
//! Software Developer's Manual, volume 3, "Memory Ordering in P6 and More Recent Processor
//! Families"; AMD, Architecture Programmer's Manual, volume 2, "Multiprocessor Memory Access
//! Ordering"). This is about accesses of every width: one of more than eight bytes, or across a
//! cache line, may be done in several parts, in any order among themselves, but each part keeps its
//! place among the accesses of other instructions. So an acquire or release fence is no
//! instruction, and only holds the compiler back.
//!
//! *String instructions* (`rep movsb`, one of the [variants](variant)). Their stores may become visible
//! in any order among themselves, but are not reordered with the stores of other instructions, as long as
//! what says that they are there is a store of its own, which W4 is (Intel, the same volume, "Memory-Ordering
//! Model for String Operations on Write-Back (WB) Memory"; AMD has no exemption for them). Of their loads
//! neither vendor exempts any.
//!
//! *What is left out.* Exempt from these promises are non-temporal accesses. There are none here.
//!
//! # Under tools
//!
//! - loom runs the portable copy over its own atomics, a word at a time, and models the fences.
//! - ThreadSanitizer (`cfg(pagewell_tsan)`) cannot see into assembly, so it gets the portable copy.
//!   It models no fences: it can show that some code accesses these bytes by other means than a
//!   `RacyBytes`, and says nothing about E2, since relaxed accesses never race with each other.
//! - Miri gets the portable copy, having no assembly.
//!
//! Proved by: `tests/bytes.rs`, which holds both implementations against the same expectations, and
//! has the protocol above as a loom model (`validated_copy_is_never_torn`) with a twin that lacks
//! W2.
#![allow(unsafe_code)] // Reason: raw memory and assembly are what this module is there to wrap.

pub mod portable;
pub mod variant;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
mod x86_64;

use std::fmt;
#[cfg(not(loom))]
use std::marker::PhantomData;
use std::mem::MaybeUninit;
#[cfg(not(loom))]
use std::ptr::NonNull;

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
use portable as native;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
use x86_64 as native;

use crate::atomic::AtomicU64;

/// Bytes of a word, the unit in which the portable copy accesses memory.
const WORD: usize = size_of::<u64>();

/// Memory that other threads may be reading or writing at the same time.
///
/// A reference to bytes, but for what it promises: nothing about the values, which may differ each
/// time one looks. A copy that raced with a write has, in each byte, what some write left there;
/// that it is of one write is for the caller to find out, by the [protocol](self).
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

    /// Asks the processor for the first cache line, which is about to be written to. Changes nothing.
    #[inline]
    pub fn expect_write(self) {
        native::expect_write(self.ptr.as_ptr().cast());
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
    unsafe fn part(self, off: usize, len: usize) -> Self {
        // SAFETY: (r), and (a) of `new` says that the memory is valid up to there.
        let ptr = unsafe { self.ptr.add(off) };
        Self { ptr, len, ..self }
    }

    /// The words that have the bytes, and where in them these begin.
    #[inline]
    fn words(self) -> (&'a [AtomicU64], usize) {
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
    unsafe fn part(self, off: usize, len: usize) -> Self {
        self.check(off, len);
        let start = self.start + off;
        Self { start, len, ..self }
    }

    fn words(self) -> (&'a [AtomicU64], usize) {
        (self.words, self.start)
    }

    /// A model has no cache lines.
    pub fn expect_write(self) {}
}

impl<'a> RacyBytes<'a> {
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

    /// Copies the bytes from `off` on to `dst`, all of which is written.
    ///
    /// # Panics
    ///
    /// When there are less than `dst.len()` bytes from `off` on.
    #[inline]
    #[track_caller]
    pub fn copy_to(self, off: usize, dst: &mut [u8]) {
        self.check(off, dst.len());
        // SAFETY: (r) was just checked; (d) `dst` is exclusive.
        unsafe { self.copy_to_unchecked(off, dst.as_mut_ptr(), dst.len()) }
    }

    /// Copies `len` bytes from `off` on to `dst`, as [`copy_to`](Self::copy_to) does, without a
    /// check of the range.
    ///
    /// # Safety
    ///
    /// - (r) The `len` bytes from `off` on are in `self`.
    /// - (d) `dst` is not null, and valid for writes of `len` bytes that nobody else accesses
    ///   meanwhile. They need not be initialised; they are afterwards.
    #[inline(always)]
    pub unsafe fn copy_to_unchecked(self, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (r).
        let src = unsafe { self.part(off, len) };
        // SAFETY: (d).
        let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast::<MaybeUninit<u8>>(), len) };
        native::copy_out(src, dst);
    }

    /// Copies `src` to the bytes from `off` on.
    ///
    /// # Panics
    ///
    /// When there are less than `src.len()` bytes from `off` on.
    #[inline]
    #[track_caller]
    pub fn copy_from(self, off: usize, src: &[u8]) {
        native::copy_in(self.slice(off, src.len()), src);
    }

    /// Copies all of `src` to the bytes from `off` on, while others may be writing to either.
    ///
    /// What a racing copy has is validated by both protocols, each on its side: as a reader of `src`,
    /// and as a writer of `self`. If the two overlap, what is copied is any mixture.
    ///
    /// # Panics
    ///
    /// When there are less than `src.len()` bytes from `off` on.
    #[inline]
    #[track_caller]
    pub fn copy_from_racy(self, off: usize, src: RacyBytes<'_>) {
        native::copy_between(self.slice(off, src.len()), src);
    }

    /// Makes the `len` bytes from `off` on zero.
    ///
    /// # Panics
    ///
    /// When they are not all in `self`.
    #[inline]
    #[track_caller]
    pub fn zero(self, off: usize, len: usize) {
        native::zero(self.slice(off, len));
    }

    #[inline]
    #[track_caller]
    fn check(self, off: usize, len: usize) {
        let inside = off <= self.len && len <= self.len - off;
        assert!(inside, "a range that is not in the racy bytes");
    }
}
