//! From the name of a variant to its copy.

use super::super::variant::names::Variant;
use super::{avx, avx512, rep_movsb, sse2};

/// The longest copy that is inlined.
pub(super) const INLINE: usize = 64;

/// Copies more than [`INLINE`] bytes by `variant`.
///
/// # Safety
///
/// As for [`super::copy`], and (d) the variant can be used.
pub(super) unsafe fn copy_long_with(variant: Variant, src: *const u8, dst: *mut u8, len: usize) {
    match variant {
        // SAFETY: (a) and (b) are handed on, here and below, with a length that the callee takes;
        // (d) is handed on.
        Variant::Sse2 => unsafe { sse2::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::Avx => unsafe { avx::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::Avx512 => unsafe { avx512::copy(src, dst, len) },
        // SAFETY: as above.
        Variant::RepMovsb => unsafe { rep_movsb::copy(src, dst, len) },
        Variant::Portable => unreachable!("a variant that has no assembly"),
    }
}

/// Makes more than [`INLINE`] bytes zero by `variant`.
///
/// # Safety
///
/// (b) as for [`super::copy`], and (d) the variant can be used.
pub(super) unsafe fn zero_long(variant: Variant, dst: *mut u8, len: usize) {
    match variant {
        // SAFETY: (b) is handed on, here and below, with a length that the callee takes; (d) is handed
        // on.
        Variant::Sse2 => unsafe { sse2::zero(dst, len) },
        // SAFETY: as above.
        Variant::Avx => unsafe { avx::zero(dst, len) },
        // SAFETY: as above.
        Variant::Avx512 => unsafe { avx512::zero(dst, len) },
        // SAFETY: as above.
        Variant::RepMovsb => unsafe { rep_movsb::zero(dst, len) },
        Variant::Portable => unreachable!("a variant that has no assembly"),
    }
}
