//! Dispatch from a [`Variant`] to its functions for long ranges.

use super::super::variant::names::Variant;
use super::{avx, avx512, rep_movsb, sse2};

pub(super) const INLINE: usize = 64;

/// Copies more than [`INLINE`] bytes. Safety: (a), (b) of [`super::copy`]; (d) `variant` is usable.
pub(super) unsafe fn copy_long_with(variant: Variant, src: *const u8, dst: *mut u8, len: usize) {
    match variant {
        // SAFETY: here and below, the caller ensures (a), (b), (d); the callee accepts this length.
        Variant::Sse2 => unsafe { sse2::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::Avx => unsafe { avx::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::Avx512 => unsafe { avx512::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::RepMovsb => unsafe { rep_movsb::copy(src, dst, len) },
        Variant::Portable => unreachable!("the portable variant has no assembly"),
    }
}

/// Zeros more than [`INLINE`] bytes. Safety: (b) of [`super::copy`], and (d) `variant` is usable.
pub(super) unsafe fn zero_long(variant: Variant, dst: *mut u8, len: usize) {
    match variant {
        // SAFETY: here and below, the caller ensures (b) and (d); the callee accepts this length.
        Variant::Sse2 => unsafe { sse2::zero(dst, len) },
        // SAFETY: as above.
        Variant::Avx => unsafe { avx::zero(dst, len) },
        // SAFETY: as above.
        Variant::Avx512 => unsafe { avx512::zero(dst, len) },
        // SAFETY: as above.
        Variant::RepMovsb => unsafe { rep_movsb::zero(dst, len) },
        Variant::Portable => unreachable!("the portable variant has no assembly"),
    }
}
