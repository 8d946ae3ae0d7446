use std::mem::MaybeUninit;

use super::native;
use super::place::{RacyBytes, RacySource};
use super::width::Width;

impl RacySource<'_> {
    /// Like [`RacyBytes::copy_to`].
    #[inline]
    #[track_caller]
    pub fn copy_to(self, off: usize, dst: &mut [u8]) {
        self.0.copy_to(off, dst);
    }

    /// Loads the `N` bytes from `off` on, usually an integer, at any alignment. Returns `None` if
    /// they are not all in `self`. On x86-64: one move if `N` is 1, 2, 4 or 8, and two if it is 16.
    #[must_use]
    #[inline(always)]
    pub fn load<const N: usize>(self, off: usize) -> Option<[u8; N]> {
        // As `RacyBytes::has`, but the first comparison can be hoisted out of a loop.
        if N > self.len() || off > self.len() - N {
            return None;
        }
        // SAFETY: (r) was just checked.
        Some(unsafe { native::load_value(self.0, off) })
    }
}

impl RacyBytes<'_> {
    /// Prefetches the first cache line for writing.
    #[inline]
    pub fn expect_write(self) {
        #[cfg(not(loom))]
        native::expect_write(self.as_ptr().cast());
    }

    /// Copies the bytes from `off` on to all of `dst`. Panics if fewer bytes follow `off`.
    #[inline]
    #[track_caller]
    pub fn copy_to(self, off: usize, dst: &mut [u8]) {
        self.check(off, dst.len());
        // SAFETY: (r) was just checked; (d) `dst` is an exclusive reference.
        unsafe { self.copy_to_unchecked(off, dst.as_mut_ptr(), dst.len()) }
    }

    /// Copies `len` bytes from `off` on to `dst`: an unchecked [`copy_to`](Self::copy_to).
    ///
    /// # Safety
    ///
    /// - (r) The `len` bytes from `off` on are in `self`.
    /// - (d) `dst` is not null, and valid for writes of `len` bytes that no other thread accesses
    ///   during the call. They need not be initialized before, and are initialized afterwards.
    #[inline(always)]
    pub unsafe fn copy_to_unchecked(self, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (r), (d).
        unsafe { self.copy_to_by::<false>(off, dst, len) }
    }

    /// Copies as [`copy_to`](Self::copy_to) does, with the code for all lengths inlined (2 KiB).
    /// Without a call, the enclosing function need not save registers.
    #[inline(always)]
    #[track_caller]
    pub fn copy_to_inlined(self, off: usize, dst: &mut [u8]) {
        self.check(off, dst.len());
        // SAFETY: (r) was just checked; (d) `dst` is an exclusive reference.
        unsafe { self.copy_to_by::<true>(off, dst.as_mut_ptr(), dst.len()) }
    }

    /// Safety: (r) and (d) of [`copy_to_unchecked`](Self::copy_to_unchecked).
    #[inline(always)]
    unsafe fn copy_to_by<const INLINED: bool>(self, off: usize, dst: *mut u8, len: usize) {
        // SAFETY: (r).
        let src = unsafe { self.part(off, len) };
        // SAFETY: (d).
        let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast::<MaybeUninit<u8>>(), len) };
        #[cfg(all(feature = "simulated", not(loom)))]
        let (src, dst) = {
            let half = pagewell_sync_testing::half_of_copy(len);
            let (first, rest) = dst.split_at_mut(half);
            native::copy_out(src.slice(0, half), first);
            pagewell_sync_testing::point();
            (src.slice(half, len - half), rest)
        };
        if INLINED {
            native::copy_out_inlined(src, dst);
        } else {
            native::copy_out(src, dst);
        }
    }

    /// Copies `src` to the bytes from `off` on. Panics if fewer bytes follow `off`.
    #[inline]
    #[track_caller]
    pub fn copy_from(self, off: usize, src: &[u8]) {
        let dst = self.slice(off, src.len());
        #[cfg(all(feature = "simulated", not(loom)))]
        let (dst, src) = {
            let half = pagewell_sync_testing::half_of_copy(src.len());
            native::copy_in(dst.slice(0, half), &src[..half]);
            pagewell_sync_testing::point();
            (dst.slice(half, src.len() - half), &src[half..])
        };
        native::copy_in(dst, src);
    }

    /// Copies all of `src` to the bytes from `off` on, while other threads may write to either. The
    /// caller follows the protocol of both: the copy is a read of `src` and a write to `self`. If
    /// the ranges overlap, their bytes are mixed arbitrarily. Panics if fewer bytes follow `off`.
    #[inline]
    #[track_caller]
    pub fn copy_from_racy<'s>(self, off: usize, src: impl Into<RacySource<'s>>) {
        let RacySource(src) = src.into();
        let dst = self.slice(off, src.len());
        #[cfg(all(feature = "simulated", not(loom)))]
        let (dst, src) = {
            let half = pagewell_sync_testing::half_of_copy(src.len());
            native::copy_between(dst.slice(0, half), src.slice(0, half));
            pagewell_sync_testing::point();
            (
                dst.slice(half, src.len() - half),
                src.slice(half, src.len() - half),
            )
        };
        native::copy_between(dst, src);
    }

    /// Zeros the `len` bytes from `off` on. Panics if they are not all in `self`.
    #[inline]
    #[track_caller]
    pub fn zero(self, off: usize, len: usize) {
        native::zero(self.slice(off, len));
    }
}

impl Width {
    /// Copies all of `src` to all of `dst` by moves of this width, for tests. Panics if this build
    /// or processor does not support it, or if the lengths differ.
    #[track_caller]
    pub fn copy(self, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
        self.must_be_supported();
        native::copy_with(self, dst, src);
    }

    /// Zeros `dst` by moves of this width. Panics if this build or processor does not support it.
    #[track_caller]
    pub fn zero(self, dst: RacyBytes<'_>) {
        self.must_be_supported();
        native::zero_with(self, dst);
    }

    #[track_caller]
    fn must_be_supported(self) {
        if let Err(error) = self.check() {
            panic!("{error}");
        }
    }
}
