//! Variant that copies long ranges with `rep movsb`.
//!
//! The instruction has a high startup cost. If the destination is a few bytes ahead of the source
//! modulo 4096, some processors take many times as long as moves do (27 times on Zen 4). Such
//! copies, and zeroing, use moves instead. For the order of its loads and stores, see ["Why the
//! assembly keeps P2"](super::super).

use std::arch::asm;

use super::wide::aliases;
use super::{avx, sse2};

/// Minimum length of a copy by `rep movsb`, in bytes. Measured on Zen 5: 2 KiB take 23 ns, and 15
/// to 19 by moves; 4 KiB take 33, and 20 to 29.
const SHORTEST: usize = 2048;

/// Copies more than 64 bytes. Safety: (a) and (b) as for [`super::copy`]; (d) requires nothing.
#[inline(always)]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len >= SHORTEST && !aliases(src, dst) {
        // SAFETY: (a) and (b) are passed on, here and below.
        unsafe { string(src, dst, len) }
    } else if has_avx() {
        // SAFETY: as above; (d) was just checked.
        unsafe { avx::copy(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { sse2::copy(src, dst, len) }
    }
}

/// Zeros 64 bytes or more. Safety: (b) as for [`super::copy`].
pub(super) unsafe fn zero(dst: *mut u8, len: usize) {
    if has_avx() {
        // SAFETY: (b) is passed on, here and below; (d) was just checked.
        unsafe { avx::zero(dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { sse2::zero(dst, len) }
    }
}

#[inline(always)]
fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx")
}

/// Copies any number of bytes. Safety: (a) and (b) as for [`super::copy`].
#[inline(always)]
pub(super) unsafe fn string(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover `len` bytes from the first on. The direction flag is clear, so
    // addresses ascend. The instruction changes the three registers, and no flag.
    unsafe {
        asm!(
            "rep movsb",
            inout("rsi") src => _,
            inout("rdi") dst => _,
            inout("rcx") len => _,
            options(nostack, preserves_flags),
        );
    }
}
