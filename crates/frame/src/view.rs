//! The pool's memory as the hit path sees it: a base address and nothing else.

#![allow(unsafe_code)] // Loads and copies by frame number, without a bounds check or a handle.

use std::marker::PhantomData;

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;

use crate::refcount::RefScheme;
use crate::{FRAME_WORDS, FramePool};

/// A copy of what the hit path needs of a [`FramePool`], to be kept beside the hit path's other data
/// so that it is in the same cache line.
///
/// # Safety of its methods
///
/// (P) The pool that the view is of must be alive. (F) The frame number must be less than
/// [`FramePool::nr_frames`] of it.
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
    /// A word of a frame, to be looked at. The frame may be of any kind by now, so that the word may be
    /// any bit pattern.
    ///
    /// # Safety
    ///
    /// (P) for as long as the reference is used, (F), (W) `word` is less than [`FRAME_WORDS`], and
    /// (S) nothing is stored in the word.
    #[inline]
    pub unsafe fn word<'a>(self, frame: u32, word: usize) -> &'a AtomicU64 {
        debug_assert!(word < FRAME_WORDS);
        #[cfg(loom)]
        {
            // SAFETY: (P) the pool, and so its memory, is alive.
            let memory = unsafe { self.memory.as_ref() };
            let words = memory.words_of(crate::FrameNr::new(frame), crate::FRAME_BYTES);
            &words[word]
        }
        #[cfg(not(loom))]
        {
            let offset = ((frame as usize) << crate::FRAME_SHIFT) + word * 8;
            // SAFETY: by (F) and (W) the word is inside of the pool's range, which (P) is mapped.
            let address = unsafe { self.base.add(offset) };
            // SAFETY: as above, and aligned to 8 bytes. By (S) the reference only serves to load,
            // which is sound beside the stores of others, atomic or opaque to the language.
            unsafe { address.cast::<AtomicU64>().as_ref() }
        }
    }

    /// Copies bytes from `off` bytes after the start of `frame` on, which others may be writing.
    ///
    /// # Safety
    ///
    /// (P), (F) for all frames that the range touches, and (D) `dst` is valid for writes of `len`
    /// bytes and no part of the pool's memory.
    #[inline(always)]
    pub unsafe fn copy_to(self, frame: u32, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (P) and (F) are passed on.
        let bytes = unsafe { self.bytes(frame, off, len) };
        // SAFETY: the range has `len` bytes, and (D) so has `dst`.
        unsafe { bytes.copy_to_unchecked(0, dst, len) }
    }

    /// # Safety
    ///
    /// (P) for as long as the bytes are used, and (F) for all frames that the range touches.
    #[inline]
    unsafe fn bytes<'a>(self, frame: u32, off: usize, len: usize) -> RacyBytes<'a> {
        #[cfg(loom)]
        {
            // SAFETY: (P).
            let memory = unsafe { self.memory.as_ref() };
            let end = (off + len).next_multiple_of(8);
            memory
                .bytes_of(crate::FrameNr::new(frame), end)
                .slice(off, len)
        }
        #[cfg(not(loom))]
        {
            let start = ((frame as usize) << crate::FRAME_SHIFT) + off;
            // SAFETY: by (F) the range is inside of the pool's, which (P) is mapped.
            let start = unsafe { self.base.add(start) };
            // SAFETY: the pool's memory stays mapped while it lives, by (P), and is accessed in ways that
            // allow for other threads.
            unsafe { RacyBytes::new(start, len) }
        }
    }
}
