//! View of a pool's memory for cache hits: only a base address.

#![allow(unsafe_code)] // Copies by frame number, without a bounds check or a handle.

use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::region::RegionRef;

use super::frame_pool::FramePool;

/// Part of a [`FramePool`] that a cache hit needs, kept on the cache line of the hit's other data.
///
/// # Safety of its methods
///
/// (P) The view's pool must not have been dropped. (F) The frame number must be less than
/// [`FramePool::nr_frames`]. To save instructions, some methods take the frame's offset in the
/// pool's memory, which is [`FRAME_BYTES`](crate::FRAME_BYTES) times its number.
#[derive(Clone, Copy, Debug)]
pub struct FrameView {
    memory: RegionRef,
}

impl FramePool {
    /// Returns a view of the pool's memory.
    pub fn view(&self) -> FrameView {
        FrameView {
            memory: self.memory().unchecked(),
        }
    }
}

impl FrameView {
    /// Copies `len` bytes from offset `off` in `frame` on to `dst`; they may change concurrently.
    ///
    /// # Safety
    ///
    /// (P), (F) for all frames in the range, (D) `dst` is valid for `len` bytes outside the pool.
    #[inline(always)]
    pub unsafe fn copy_to(self, frame: u32, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: the caller's obligations are the callee's. By (F) the shift does not overflow.
        unsafe { self.copy_to_from((frame as usize) << crate::words::FRAME_SHIFT, off, dst, len) }
    }

    /// Like [`copy_to`](Self::copy_to), for the frame at offset `start` in the pool's memory.
    ///
    /// # Safety
    ///
    /// As for `copy_to`.
    #[inline(always)]
    pub unsafe fn copy_to_from(self, start: usize, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: the caller ensures (P) and (F). (W) The copy writes nothing in the pool.
        let bytes = unsafe { self.bytes_from(start, off, len) };
        // SAFETY: the range has `len` bytes, and by (D) so does `dst`.
        unsafe { bytes.copy_to_unchecked(0, dst, len) }
    }

    /// Returns the word at `index` of `frame`. Other threads may concurrently store to the word.
    ///
    /// # Safety
    ///
    /// (P) for as long as the word is used, (F), (I) `index` is less than
    /// [`FRAME_WORDS`](crate::FRAME_WORDS), and (W) of [`FramePool::words`].
    #[inline(always)]
    pub unsafe fn word<'a>(self, frame: u32, index: usize) -> &'a AtomicU64 {
        // SAFETY: the caller's obligations are the callee's. By (F) the shift does not overflow.
        unsafe { self.word_from((frame as usize) << crate::words::FRAME_SHIFT, index) }
    }

    /// Like [`word`](Self::word), for the frame at offset `start` in the pool's memory.
    ///
    /// # Safety
    ///
    /// As for `word`.
    #[inline(always)]
    pub unsafe fn word_from<'a>(self, start: usize, index: usize) -> &'a AtomicU64 {
        debug_assert!(index < crate::words::FRAME_WORDS);
        // SAFETY: by (F) and (I) the word is in the pool's memory, which exists by (P).
        unsafe { self.memory.word(start, index) }
    }

    /// Returns `len` bytes from offset `off` in `frame` on, which may be accessed concurrently.
    ///
    /// # Safety
    ///
    /// (P) for as long as the bytes are used, (F) for all frames in the range, and (W) the caller
    /// writes only to frames whose bytes it may change at that moment.
    #[inline(always)]
    pub unsafe fn bytes<'a>(self, frame: u32, off: usize, len: usize) -> RacyBytes<'a> {
        // SAFETY: the caller's obligations are the callee's. By (F) the shift does not overflow.
        unsafe { self.bytes_from((frame as usize) << crate::words::FRAME_SHIFT, off, len) }
    }

    /// Like [`bytes`](Self::bytes), with its safety, for the frame at offset `start` in the memory.
    #[inline(always)]
    unsafe fn bytes_from<'a>(self, start: usize, off: usize, len: usize) -> RacyBytes<'a> {
        // SAFETY: by (F) the range is in the pool's memory, which exists by (P).
        unsafe { self.memory.bytes(start, off, len) }
    }
}
