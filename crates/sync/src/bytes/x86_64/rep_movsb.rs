//! Variant that copies long ranges with `rep movsb`.
//!
//! The instruction has a high startup cost, and on some processors is many times slower than moves
//! if the destination is a few bytes ahead of the source modulo 4096. Below 2 KiB, in that case,
//! and for zeroing, this variant uses moves. ["Why the assembly keeps P2"](super::super) covers the
//! order of the instruction's accesses.

use std::arch::asm;

use super::wide::aliases;
use super::{avx, sse2};

/// Minimum length in bytes of a copy by `rep movsb`. Below, the startup cost is too large.
/// `docs/adr/0013` has times for 4 KiB, and `pagewell bench read --copy` compares other lengths.
const SHORTEST: usize = 2048;

/// Copies more than 64 bytes. Safety: (a) and (b) of [`super::copy`]. (d) requires nothing.
#[inline(always)]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len >= SHORTEST && !aliases(src, dst) {
        // SAFETY: here and below, the caller ensures (a) and (b).
        unsafe { string(src, dst, len) }
    } else if has_avx() {
        // SAFETY: as above; (d) was just checked.
        unsafe { avx::copy(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { sse2::copy(src, dst, len) }
    }
}

/// Zeros 64 bytes or more. Safety: (b) of [`super::copy`].
pub(super) unsafe fn zero(dst: *mut u8, len: usize) {
    if has_avx() {
        // SAFETY: here and below, the caller ensures (b); (d) was just checked.
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

/// Copies any number of bytes. Safety: (a) and (b) of [`super::copy`].
#[inline(always)]
pub(super) unsafe fn string(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the bytes. The ABI keeps the direction flag clear, so addresses
    // ascend. The instruction changes the three registers and no flag.
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
