//! The pool's memory for cache hits: only a base address.

#![allow(unsafe_code)] // Copies by frame number, without a bounds check or a handle.

use std::marker::PhantomData;

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;

use super::frame_pool::FramePool;
use crate::count::RefScheme;

/// Copy of what a cache hit needs of a [`FramePool`], to be kept in the cache line of its other
/// data.
///
/// # Safety of its methods
///
/// (P) The pool of the view must be alive. (F) The frame number must be less than
/// [`FramePool::nr_frames`] of it. Some methods take the frame's offset in the pool's memory
/// instead, which saves instructions: [`FRAME_BYTES`](crate::FRAME_BYTES) times the number.
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

// SAFETY: a view is an address. All accesses are `unsafe`, and to the pool, which is `Sync`.
unsafe impl<S: RefScheme> Send for FrameView<S> {}
// SAFETY: as above.
unsafe impl<S: RefScheme> Sync for FrameView<S> {}

impl<S: RefScheme> FramePool<S> {
    /// Returns a view of the pool's memory.
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
    /// Copies `len` bytes from offset `off` in `frame` on, which other threads may be writing.
    ///
    /// # Safety
    ///
    /// (P), (F) for all frames in the range, (D) `dst` is valid for `len` bytes outside the pool.
    #[inline(always)]
    pub unsafe fn copy_to(self, frame: u32, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: all duties are passed on; by (F) the offset is in memory, without overflow.
        unsafe { self.copy_to_from((frame as usize) << crate::words::FRAME_SHIFT, off, dst, len) }
    }

    /// As [`copy_to`](Self::copy_to), for the frame at offset `start` in the pool's memory.
    ///
    /// # Safety
    ///
    /// As for `copy_to`.
    #[inline(always)]
    pub unsafe fn copy_to_from(self, start: usize, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (P) and (F) are passed on; (W) nothing is written.
        let bytes = unsafe { self.bytes_from(start, off, len) };
        // SAFETY: the range has `len` bytes, and by (D) so does `dst`.
        unsafe { bytes.copy_to_unchecked(0, dst, len) }
    }

    /// Returns the word at `index` of `frame`, which other threads may be writing.
    ///
    /// # Safety
    ///
    /// (P) while the word is used, (F), (I) `index` is less than
    /// [`FRAME_WORDS`](crate::FRAME_WORDS), and (W) of [`FramePool::words`].
    #[inline(always)]
    pub unsafe fn word<'a>(self, frame: u32, index: usize) -> &'a AtomicU64 {
        // SAFETY: all duties are passed on; by (F) the offset is in memory, without overflow.
        unsafe { self.word_from((frame as usize) << crate::words::FRAME_SHIFT, index) }
    }

    /// As [`word`](Self::word), for the frame at offset `start` in the pool's memory.
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
            // SAFETY: by (F) and (I) the word is in the pool's memory, mapped by (P).
            let word = unsafe { self.base.add(start) }.cast::<AtomicU64>();
            // SAFETY: mapped by (P), aligned, zeroed first. All access is atomic or by `RacyBytes`.
            unsafe { word.as_ref() }
        }
    }

    /// Returns `len` bytes from offset `off` in `frame` on, which other threads may be accessing.
    ///
    /// # Safety
    ///
    /// (P) while the bytes are used, (F) for all frames in the range, and (W) the caller writes
    /// only to frames whose bytes it may change at that moment.
    #[inline(always)]
    pub unsafe fn bytes<'a>(self, frame: u32, off: usize, len: usize) -> RacyBytes<'a> {
        // SAFETY: all duties are passed on; by (F) the offset is in memory, without overflow.
        unsafe { self.bytes_from((frame as usize) << crate::words::FRAME_SHIFT, off, len) }
    }

    /// As [`bytes`](Self::bytes), for the frame at offset `start` in the pool's memory.
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
            // SAFETY: by (F) the range is in the pool's memory, mapped by (P).
            let start = unsafe { self.base.add(start) };
            // SAFETY: mapped by (P), and accessed in ways that allow for other threads.
            unsafe { RacyBytes::new(start, len) }
        }
    }
}
