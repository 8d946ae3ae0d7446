//! The pool's memory as the hit path sees it: a base address and nothing else.

#![allow(unsafe_code)] // Copies by frame number, without a bounds check or a handle.

use std::marker::PhantomData;

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;

use super::frame_pool::FramePool;
use crate::count::RefScheme;

/// A copy of what the hit path needs of a [`FramePool`], to be kept beside the hit path's other data
/// so that it is in the same cache line.
///
/// # Safety of its methods
///
/// (P) The pool that the view is of must be alive. (F) The frame number must be less than
/// [`FramePool::nr_frames`] of it. Some take, instead of a number, where the frame starts in the pool's memory:
/// [`FRAME_BYTES`](crate::FRAME_BYTES) times the number, which their callers have in fewer steps.
#[derive(Debug)]
pub struct FrameView<S: RefScheme> {
    #[cfg(not(loom))]
    base: std::ptr::NonNull<u8>,
    #[cfg(loom)]
    memory: std::ptr::NonNull<crate::memory::Memory>,
    scheme: PhantomData<fn() -> S>,
}

impl<S: RefScheme> Clone for FrameView<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RefScheme> Copy for FrameView<S> {}

// SAFETY: a view is an address; what is done with it is `unsafe` and of the pool, which is `Sync`.
unsafe impl<S: RefScheme> Send for FrameView<S> {}
// SAFETY: as above.
unsafe impl<S: RefScheme> Sync for FrameView<S> {}

impl<S: RefScheme> FramePool<S> {
    /// The pool's memory as the hit path sees it.
    pub fn view(&self) -> FrameView<S> {
        FrameView {
            #[cfg(not(loom))]
            base: self.memory().base(),
            #[cfg(loom)]
            memory: std::ptr::NonNull::from(self.memory()),
            scheme: PhantomData,
        }
    }
}

impl<S: RefScheme> FrameView<S> {
    /// Copies bytes from `off` bytes after the start of `frame` on, which others may be writing.
    ///
    /// # Safety
    ///
    /// (P), (F) for all frames that the range touches, and (D) `dst` is valid for writes of `len`
    /// bytes and no part of the pool's memory.
    #[inline(always)]
    pub unsafe fn copy_to(self, frame: u32, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: all duties are passed on; by (F) the product is a place in memory, and does not overflow.
        unsafe { self.copy_to_from((frame as usize) << crate::words::FRAME_SHIFT, off, dst, len) }
    }

    /// As [`copy_to`](Self::copy_to), of the frame that begins `start` bytes after the start of the pool's memory.
    ///
    /// # Safety
    ///
    /// As for `copy_to`.
    #[inline(always)]
    pub unsafe fn copy_to_from(self, start: usize, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (P) and (F) are passed on; (W) nothing is written to it.
        let bytes = unsafe { self.bytes_from(start, off, len) };
        // SAFETY: the range has `len` bytes, and (D) so has `dst`.
        unsafe { bytes.copy_to_unchecked(0, dst, len) }
    }

    /// The word at `index` of `frame`, which others may be writing.
    ///
    /// # Safety
    ///
    /// (P) for as long as the word is used, (F), (I) `index` is less than [`FRAME_WORDS`](crate::FRAME_WORDS), and (W) of
    /// [`FramePool::words`].
    #[inline(always)]
    pub unsafe fn word<'a>(self, frame: u32, index: usize) -> &'a AtomicU64 {
        // SAFETY: all duties are passed on; by (F) the product is a place in memory, and does not overflow.
        unsafe { self.word_from((frame as usize) << crate::words::FRAME_SHIFT, index) }
    }

    /// As [`word`](Self::word), of the frame that begins `start` bytes after the start of the pool's memory.
    ///
    /// # Safety
    ///
    /// As for `word`.
    #[inline(always)]
    pub unsafe fn word_from<'a>(self, start: usize, index: usize) -> &'a AtomicU64 {
        #[cfg(loom)]
        {
            // SAFETY: (P).
            let memory = unsafe { self.memory.as_ref() };
            let frame = crate::words::FrameNr::new((start >> crate::words::FRAME_SHIFT) as u32);
            &memory.words_of(frame, crate::words::FRAME_BYTES)[index]
        }
        #[cfg(not(loom))]
        {
            let start = start + index * size_of::<AtomicU64>();
            // SAFETY: by (F) and (I) the word is inside of the pool's memory, which (P) is mapped.
            let word = unsafe { self.base.add(start) }.cast::<AtomicU64>();
            // SAFETY: mapped for as long as (P) says, aligned since frames are, initialised since a mapping begins
            // as zeros; and all who access the memory do so by atomics, or as if by them (`RacyBytes`).
            unsafe { word.as_ref() }
        }
    }

    /// `len` bytes from `off` bytes after the start of `frame` on, which others may be reading or writing.
    ///
    /// # Safety
    ///
    /// (P) for as long as the bytes are used, (F) for all frames that the range touches, and (W) the caller writes only
    /// to frames of which it may change the bytes at that moment.
    #[inline(always)]
    pub unsafe fn bytes<'a>(self, frame: u32, off: usize, len: usize) -> RacyBytes<'a> {
        // SAFETY: all duties are passed on; by (F) the product is a place in memory, and does not overflow.
        unsafe { self.bytes_from((frame as usize) << crate::words::FRAME_SHIFT, off, len) }
    }

    /// As [`bytes`](Self::bytes), of the frame that begins `start` bytes after the start of the pool's memory.
    #[inline(always)]
    unsafe fn bytes_from<'a>(self, start: usize, off: usize, len: usize) -> RacyBytes<'a> {
        #[cfg(loom)]
        {
            // SAFETY: (P).
            let memory = unsafe { self.memory.as_ref() };
            let frame = crate::words::FrameNr::new((start >> crate::words::FRAME_SHIFT) as u32);
            let end = (off + len).next_multiple_of(8);
            memory.bytes_of(frame, end).slice(off, len)
        }
        #[cfg(not(loom))]
        {
            let start = start + off;
            // SAFETY: by (F) the range is inside of the pool's, which (P) is mapped.
            let start = unsafe { self.base.add(start) };
            // SAFETY: the pool's memory stays mapped while it lives, by (P), and is accessed in ways that
            // allow for other threads.
            unsafe { RacyBytes::new(start, len) }
        }
    }
}
