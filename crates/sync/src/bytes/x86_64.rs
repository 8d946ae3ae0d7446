//! The racy copy in assembly, for x86-64.
//!
//! Owns: the copies of up to 64 bytes, which are inlined, and the way from a longer one to its
//! variant. Called by [`RacyBytes`] and by [`variant`](super::variant); why its loads stay where they
//! must is written down [there](super). What is said here is how it is fast.
//!
//! | bytes | how |
//! |---|---|
//! | 1, 2, 4, 8, 16 to a value | inlined: one move, or two of 8, to registers |
//! | 1 to 64 | inlined: two or four moves, from both ends, which overlap in the middle |
//! | more | a call: a load of [`choice::CHOSEN`], two predicted branches, and the variant |
//!
//! | module | what |
//! |---|---|
//! | `choice` | which variant is used, and how that is measured |
//! | `long` | from the name of a variant to its copy |
//! | `wide` | the templates of the variants: pieces and loops of moves of any width |
//! | `sse2`, `avx`, `avx512` | the variants: moves of 16, 32 and 64 bytes |
//! | `rep_movsb` | the variant that leaves it to the processor |
//!
//! Copies that are inlined look at no variant: moves of 16 bytes are what every processor has, and what
//! wider ones would save there the dispatch would cost.
//!
//! The branches to the variants are direct ones, not a pointer: some systems have indirect branches not
//! predicted.

#[macro_use]
mod wide;

mod avx;
mod avx512;
pub(super) mod choice;
mod long;
mod rep_movsb;
mod sse2;

use std::arch::asm;
use std::mem::MaybeUninit;

use self::long::{INLINE, copy_long_with, zero_long};
use super::place::RacyBytes;
use super::variant::names::Variant;
use crate::atomic::Ordering;

/// What to copy where few bytes are to be zero.
static ZEROS: [u8; INLINE] = [0; INLINE];

/// Copies all of `src` to `dst`, which is as long.
#[inline(always)]
pub(super) fn copy_out(src: RacyBytes<'_>, dst: &mut [MaybeUninit<u8>]) {
    assert_eq!(src.len(), dst.len());
    // SAFETY: (a) by the duties of `RacyBytes::new`; (b) `dst` is exclusive, and what is stored
    // there is initialised.
    unsafe { copy(src.as_ptr(), dst.as_mut_ptr().cast(), dst.len()) }
}

/// The `N` bytes of `src` from `off` on.
///
/// The address is the sum of two registers, as most are when they are asked for: the place of a page, and a number that was read
/// from it. So the sum takes no instruction of its own.
///
/// # Safety
///
/// (r) They are in `src`.
#[inline(always)]
pub(super) unsafe fn load_value<const N: usize>(src: RacyBytes<'_>, off: usize) -> [u8; N] {
    let base = src.as_ptr();
    let mut bytes = [0; N];
    match N {
        1 => {
            let value: u32;
            // SAFETY: (r), and the memory is valid by the duties of `RacyBytes::new`. Nothing is written.
            unsafe {
                asm!("movzx {v:e}, byte ptr [{base} + {off}]", base = in(reg) base, off = in(reg) off, v = lateout(reg) value,
                    options(nostack, preserves_flags));
            }
            bytes.copy_from_slice(&value.to_ne_bytes()[..N]);
        }
        2 => {
            let value: u32;
            // SAFETY: as above.
            unsafe {
                asm!("movzx {v:e}, word ptr [{base} + {off}]", base = in(reg) base, off = in(reg) off, v = lateout(reg) value,
                    options(nostack, preserves_flags));
            }
            bytes.copy_from_slice(&value.to_ne_bytes()[..N]);
        }
        4 => {
            let value: u32;
            // SAFETY: as above.
            unsafe {
                asm!("mov {v:e}, dword ptr [{base} + {off}]", base = in(reg) base, off = in(reg) off, v = lateout(reg) value,
                    options(nostack, preserves_flags));
            }
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
        8 => {
            let value: u64;
            // SAFETY: as above.
            unsafe {
                asm!("mov {v}, qword ptr [{base} + {off}]", base = in(reg) base, off = in(reg) off, v = lateout(reg) value,
                    options(nostack, preserves_flags));
            }
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
        16 => {
            let (low, high): (u64, u64);
            // SAFETY: as above.
            unsafe {
                asm!("mov {l}, qword ptr [{base} + {off}]", "mov {h}, qword ptr [{base} + {off} + 8]",
                    base = in(reg) base, off = in(reg) off, l = out(reg) low, h = lateout(reg) high,
                    options(nostack, preserves_flags));
            }
            let (low_bytes, high_bytes) = bytes.split_at_mut(8);
            low_bytes.copy_from_slice(&low.to_ne_bytes());
            high_bytes.copy_from_slice(&high.to_ne_bytes());
        }
        // SAFETY: (r); (d) the array is ours.
        _ => unsafe { src.copy_to_unchecked(off, bytes.as_mut_ptr(), N) },
    }
    bytes
}

/// Copies `src` to all of `dst`, which is as long.
#[inline]
pub(super) fn copy_in(dst: RacyBytes<'_>, src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    // SAFETY: (a) `src` is shared and so nobody writes it; (b) by the duties of `RacyBytes::new`.
    unsafe { copy(src.as_ptr(), dst.as_ptr(), src.len()) }
}

/// Copies `src` to all of `dst`, which is as long.
#[inline]
pub(super) fn copy_between(dst: RacyBytes<'_>, src: RacyBytes<'_>) {
    assert_eq!(dst.len(), src.len());
    // SAFETY: (a) and (b) by the duties of `RacyBytes::new`.
    unsafe { copy(src.as_ptr(), dst.as_ptr(), src.len()) }
}

/// Makes all bytes of `dst` zero.
pub(super) fn zero(dst: RacyBytes<'_>) {
    if dst.len() <= INLINE {
        return copy_in(dst, &ZEROS[..dst.len()]);
    }
    // ORDERING: Relaxed; as in `copy_long`.
    let variant = match choice::CHOSEN.load(Ordering::Relaxed) {
        choice::NONE => choice::first(),
        code => choice::variant_of(code),
    };
    // SAFETY: (b) by the duties of `RacyBytes::new`; (d) only variants that can be used are chosen.
    unsafe { zero_long(variant, dst.as_ptr(), dst.len()) }
}

/// Copies `src` to all of `dst`, which is as long, by `variant`, which can be used.
pub(super) fn copy_with(variant: Variant, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
    assert_eq!(dst.len(), src.len());
    if dst.len() <= INLINE {
        return copy_between(dst, src);
    }
    // SAFETY: (a) and (b) by the duties of `RacyBytes::new`; (d) is the caller's word, which
    // `variant` has asked for.
    unsafe { copy_long_with(variant, src.as_ptr(), dst.as_ptr(), dst.len()) }
}

/// Makes all bytes of `dst` zero by `variant`, which can be used.
pub(super) fn zero_with(variant: Variant, dst: RacyBytes<'_>) {
    if dst.len() <= INLINE {
        return zero(dst);
    }
    // SAFETY: as in `copy_with`.
    unsafe { zero_long(variant, dst.as_ptr(), dst.len()) }
}

/// Copies `len` bytes.
///
/// Up to [`INLINE`] bytes this is in the caller's code, where each general register that a length takes, however seldom it is
/// met, is one that the caller's values leave for the stack. So bytes go by vector registers, and one to three by a single one.
///
/// If the two ranges overlap, as they may where both are parts of a `RacyBytes`, some of the bytes that are
/// stored are any mixture of what was there before.
///
/// # Safety
///
/// - (a) `src` is valid for reads of `len` bytes. Whoever writes them meanwhile does so by a
///   [`RacyBytes`].
/// - (b) `dst` is valid for writes of `len` bytes. Whoever accesses them meanwhile does so by a
///   [`RacyBytes`].
#[inline(always)]
unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len > INLINE {
        // SAFETY: (a) and (b) are handed on, here and below, with a length that the callee takes.
        unsafe { copy_long(src, dst, len) }
    } else if len > 32 {
        // SAFETY: as above.
        unsafe { copy_32_to_64(src, dst, len) }
    } else if len > 16 {
        // SAFETY: as above.
        unsafe { copy_16_to_32(src, dst, len) }
    } else if len >= 8 {
        // SAFETY: as above.
        unsafe { copy_8_to_16(src, dst, len) }
    } else if len >= 4 {
        // SAFETY: as above.
        unsafe { copy_4_to_8(src, dst, len) }
    } else if len > 0 {
        // SAFETY: as above.
        unsafe { copy_1_to_3(src, dst, len) }
    }
}

/// Copies 1 to 3 bytes: the first, the one in the middle and the last.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_1_to_3(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the bytes at 0, at `len / 2` and at `len - 1`.
    unsafe {
        asm!(
            "movzx {a:e}, byte ptr [{src}]",
            "mov byte ptr [{dst}], {a:l}",
            "movzx {a:e}, byte ptr [{src} + {half}]",
            "mov byte ptr [{dst} + {half}], {a:l}",
            "movzx {a:e}, byte ptr [{src} + {len} - 1]",
            "mov byte ptr [{dst} + {len} - 1], {a:l}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            half = in(reg) len / 2,
            a = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 4 to 8 bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_4_to_8(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 4 bytes.
    unsafe {
        asm!(
            "movd {a}, dword ptr [{src}]",
            "movd {b}, dword ptr [{src} + {len} - 4]",
            "movd dword ptr [{dst}], {a}",
            "movd dword ptr [{dst} + {len} - 4], {b}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 8 to 16 bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_8_to_16(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 8 bytes.
    unsafe {
        asm!(
            "movq {a}, qword ptr [{src}]",
            "movq {b}, qword ptr [{src} + {len} - 8]",
            "movq qword ptr [{dst}], {a}",
            "movq qword ptr [{dst} + {len} - 8], {b}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 16 to 32 bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_16_to_32(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 16 bytes.
    unsafe {
        asm!(
            movups!("{a}, [{src}]"),
            movups!("{b}, [{src} + {len} - 16]"),
            movups!("[{dst}], {a}"),
            movups!("[{dst} + {len} - 16], {b}"),
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies 32 to 64 bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_32_to_64(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 32 bytes.
    unsafe {
        asm!(
            movups!("{a}, [{src}]"),
            movups!("{b}, [{src} + 16]"),
            movups!("{c}, [{src} + {len} - 32]"),
            movups!("{e}, [{src} + {len} - 16]"),
            movups!("[{dst}], {a}"),
            movups!("[{dst} + 16], {b}"),
            movups!("[{dst} + {len} - 32], {c}"),
            movups!("[{dst} + {len} - 16], {e}"),
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            e = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies more than [`INLINE`] bytes.
///
/// # Safety
///
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_long(src: *const u8, dst: *mut u8, len: usize) {
    // ORDERING: Relaxed; a fact about the processor that each thread could find out for itself, and
    // nothing else.
    let code = choice::CHOSEN.load(Ordering::Relaxed);
    if code == choice::AVX512 {
        // SAFETY: (a) and (b) are handed on, here and below, with a length that the callee takes;
        // (d) what is chosen can be used.
        unsafe { avx512::copy(src, dst, len) }
    } else if code == choice::AVX {
        // SAFETY: as above.
        unsafe { avx::copy(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { copy_otherwise(src, dst, len) }
    }
}

/// Copies by a variant that is chosen more rarely, or for the first time.
///
/// # Safety
///
/// As for [`copy_long`].
#[inline(never)]
unsafe fn copy_otherwise(src: *const u8, dst: *mut u8, len: usize) {
    // ORDERING: Relaxed; as in `copy_long`.
    let code = choice::CHOSEN.load(Ordering::Relaxed);
    if code == choice::REP_MOVSB {
        // SAFETY: (a) and (b) are handed on, here and below; (d) what is chosen can be used.
        unsafe { rep_movsb::copy(src, dst, len) }
    } else if code == choice::SSE2 {
        // SAFETY: as above.
        unsafe { sse2::copy(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { choose_and_copy(src, dst, len) }
    }
}

/// The first of all long copies. It is apart, and called last, so that the functions above have nothing to
/// save on the stack: three registers were a fifth of a copy of 256 bytes.
///
/// # Safety
///
/// As for [`copy_long`].
#[cold]
#[inline(never)]
unsafe fn choose_and_copy(src: *const u8, dst: *mut u8, len: usize) {
    let variant = choice::first();
    // SAFETY: (a) and (b) are handed on; (d) what is chosen can be used.
    unsafe { copy_long_with(variant, src, dst, len) }
}

/// Asks the processor for the cache line of `address`, to be written to.
#[inline]
pub(super) fn expect_write(address: *const u8) {
    // SAFETY: a prefetch has no effect on memory, whatever the address.
    unsafe {
        asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(test)]
mod tests;
