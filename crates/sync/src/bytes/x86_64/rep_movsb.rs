//! The variant that leaves long copies to the processor's own: `rep movsb`.
//!
//! Owns: which copies it is for. It takes its time to begin, and on some processors many times as long as
//! moves where the destination is a few bytes ahead of the source modulo 4096 (27 times on Zen 4); these
//! copies are left to moves. So is zeroing.
//!
//! Stores of one string operation may become visible in any order among themselves, as the bytes of
//! one copy may; they are not reordered with the stores of other instructions, nor are its loads with
//! other loads (see ["Why the assembly keeps P2"](super::super)).

use std::arch::asm;

use super::wide::aliases;
use super::{avx, sse2};

/// The shortest copy that is left to the processor. Measured on Zen 5: 2 KiB take 23 ns, and 15 to 19 by moves;
/// 4 KiB 33, and 20 to 29.
const SHORTEST: usize = 2048;

/// Copies more than 64 bytes.
///
/// # Safety
///
/// (a) and (b) as for [`super::copy`]; (d) there is nothing that the processor might lack.
#[inline(always)]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len >= SHORTEST && !aliases(src, dst) {
        // SAFETY: (a) and (b) are handed on, here and below.
        unsafe { string(src, dst, len) }
    } else if has_avx() {
        // SAFETY: as above; (d) just asked for.
        unsafe { avx::copy(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { sse2::copy(src, dst, len) }
    }
}

/// Makes 64 bytes or more zero.
///
/// # Safety
///
/// (b) as for [`super::copy`].
pub(super) unsafe fn zero(dst: *mut u8, len: usize) {
    if has_avx() {
        // SAFETY: (b) is handed on, here and below; (d) just asked for.
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

/// Copies any number of bytes.
///
/// # Safety
///
/// (a) and (b) as for [`super::copy`].
#[inline(always)]
pub(super) unsafe fn string(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover `len` bytes from the first on, and the direction flag is clear, so it goes
    // upward; it changes the three registers, and no flag.
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
