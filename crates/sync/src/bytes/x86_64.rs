//! The racy copy in assembly, for x86-64.
//!
//! Called by [`RacyBytes`] alone; why its loads stay where they must is written down
//! [there](super). What is said here is how it is fast.
//!
//! | bytes | how |
//! |---|---|
//! | 1 to 64 | inlined: two or four moves, from both ends, which overlap in the middle |
//! | 65 to 512 | a call: the same with 4, 8 or 16 moves of 32 bytes |
//! | more | a call: aligned stores of 32 bytes, four in a turn, and overlapping moves at both ends |
//!
//! Up to 512 bytes, which code runs depends on the class of the length and on nothing else, so
//! copies of changing lengths do not mispredict much. Without AVX, everything above 64 bytes is a
//! loop over the inlined copy of 64.
//!
//! A loop forward stalls where the destination is ahead of the source by a few bytes modulo 4096:
//! the processor compares only the low bits of addresses when it looks for an older store that a
//! load has to wait for, and takes the store just made for one. This is common, since pages begin
//! where pages begin, and large allocations 16 bytes later. It is copied backward, by up to a
//! quarter faster.
//!
//! Left out, by measurement on Zen 4: moves of 64 bytes (AVX-512), which are not faster, since a
//! store of 64 bytes takes two cycles; `rep movsb`, which is not faster either, and takes up to 27
//! times as long where the destination is a few bytes ahead of the source modulo 4096.

use std::arch::asm;
use std::mem::MaybeUninit;

use super::{RacyBytes, portable};
use crate::atomic::{AtomicU32, Ordering};

/// The longest copy that is inlined.
const INLINE: usize = 64;

/// Where the destination is ahead of the source by less than this, modulo 4096, it is copied
/// backward.
const ALIAS_BYTES: usize = 64;

/// What to copy where few bytes are to be zero.
static ZEROS: [u8; INLINE] = [0; INLINE];

/// Whether the processor has AVX: unknown (0), or one of the following.
static AVX: AtomicU32 = AtomicU32::new(0);
const ABSENT: u32 = 1;
const PRESENT: u32 = 2;

/// Copies all of `src` to `dst`, which is as long.
#[inline(always)]
pub(super) fn copy_out(src: RacyBytes<'_>, dst: &mut [MaybeUninit<u8>]) {
    assert_eq!(src.len(), dst.len());
    // SAFETY: (a) by the duties of `RacyBytes::new`; (b) `dst` is exclusive, and what is stored
    // there is initialised.
    unsafe { copy(src.as_ptr(), dst.as_mut_ptr().cast(), dst.len()) }
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
    let avx = match AVX.load(Ordering::Relaxed) {
        0 => look_for_avx(),
        avx => avx,
    };
    if avx == PRESENT {
        // SAFETY: (b) by the duties of `RacyBytes::new`; (d).
        unsafe { zero_long(dst.as_ptr(), dst.len()) }
    } else {
        portable::zero(dst);
    }
}

/// Copies `len` bytes.
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

/// The move of 16 bytes: in the encoding that the compiler uses around it, since processors dislike
/// a change of encodings within a function.
#[cfg(target_feature = "avx")]
macro_rules! movups {
    ($operands:literal) => {
        concat!("vmovups ", $operands)
    };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! movups {
    ($operands:literal) => {
        concat!("movups ", $operands)
    };
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
            "movzx {b:e}, byte ptr [{src} + {half}]",
            "movzx {c:e}, byte ptr [{src} + {len} - 1]",
            "mov byte ptr [{dst}], {a:l}",
            "mov byte ptr [{dst} + {half}], {b:l}",
            "mov byte ptr [{dst} + {len} - 1], {c:l}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            half = in(reg) len / 2,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
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
            "mov {a:e}, [{src}]",
            "mov {b:e}, [{src} + {len} - 4]",
            "mov [{dst}], {a:e}",
            "mov [{dst} + {len} - 4], {b:e}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(reg) _,
            b = out(reg) _,
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
            "mov {a}, [{src}]",
            "mov {b}, [{src} + {len} - 8]",
            "mov [{dst}], {a}",
            "mov [{dst} + {len} - 8], {b}",
            src = in(reg) src,
            dst = in(reg) dst,
            len = in(reg) len,
            a = out(reg) _,
            b = out(reg) _,
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
    // ORDERING: Relaxed; a fact that each thread could find out for itself, and nothing else.
    match AVX.load(Ordering::Relaxed) {
        // SAFETY: (a) and (b) are handed on, here and below, with a length that the callee takes;
        // (d).
        PRESENT => unsafe { copy_with_avx(src, dst, len) },
        // SAFETY: as above.
        ABSENT => unsafe { copy_without_avx(src, dst, len) },
        // SAFETY: as above.
        _ => unsafe { look_and_copy(src, dst, len) },
    }
}

/// The first of all long copies. It is apart, and called last, so that [`copy_long`] has nothing to
/// save on the stack: three registers were a fifth of a copy of 256 bytes.
///
/// # Safety
///
/// As for [`copy_long`].
#[cold]
#[inline(never)]
unsafe fn look_and_copy(src: *const u8, dst: *mut u8, len: usize) {
    look_for_avx();
    // SAFETY: (a) and (b) are handed on.
    unsafe { copy_long(src, dst, len) }
}

#[cold]
#[inline(never)]
fn look_for_avx() -> u32 {
    let avx = if std::is_x86_feature_detected!("avx") {
        PRESENT
    } else {
        ABSENT
    };
    // ORDERING: Relaxed, as where it is loaded; threads that store it at once store the same.
    AVX.store(avx, Ordering::Relaxed);
    avx
}

/// Copies more than [`INLINE`] bytes.
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_with_avx(src: *const u8, dst: *mut u8, len: usize) {
    let ahead = dst.addr().wrapping_sub(src.addr()) % 4096;
    if len <= 128 {
        // SAFETY: (a) and (b) are handed on, here and below, with a length that the callee takes;
        // (d).
        unsafe { copy_64_to_128(src, dst, len) }
    } else if len <= 256 {
        // SAFETY: as above.
        unsafe { copy_128_to_256(src, dst, len) }
    } else if len <= 512 {
        // SAFETY: as above.
        unsafe { copy_256_to_512(src, dst, len) }
    } else if (1..ALIAS_BYTES).contains(&ahead) {
        // SAFETY: as above.
        unsafe { copy_backward(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { copy_forward(src, dst, len) }
    }
}

/// Copies 64 bytes or more.
///
/// # Safety
///
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_without_avx(src: *const u8, dst: *mut u8, len: usize) {
    let last = len - INLINE;
    let mut off = 0;
    while off < last {
        let (src, dst) = (src.wrapping_add(off), dst.wrapping_add(off));
        // SAFETY: (a) and (b) cover the 64 bytes at `off`, which is less than `len - 64`.
        unsafe { copy_32_to_64(src, dst, INLINE) };
        off += INLINE;
    }
    let (src, dst) = (src.wrapping_add(last), dst.wrapping_add(last));
    // SAFETY: (a) and (b) cover the last 64 bytes.
    unsafe { copy_32_to_64(src, dst, INLINE) };
}

/// Loads 32 bytes from each of some places, of which half count from the end, then stores them all.
/// An operation of one `asm!`.
macro_rules! copy_pieces {
    ($src:ident, $dst:ident, $len:ident, $(($reg:literal, $place:literal)),*) => {
        asm!(
            $(concat!("vmovdqu ymm", $reg, ", [{src} + ", $place, "]"),)*
            $(concat!("vmovdqu [{dst} + ", $place, "], ymm", $reg),)*
            "vzeroupper",
            src = in(reg) $src,
            dst = in(reg) $dst,
            len = in(reg) $len,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            out("xmm9") _,
            out("xmm10") _,
            out("xmm11") _,
            out("xmm12") _,
            out("xmm13") _,
            out("xmm14") _,
            out("xmm15") _,
            options(nostack, preserves_flags),
        )
    };
}

/// Copies 64 to 128 bytes.
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_64_to_128(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 64 bytes; (d).
    unsafe {
        copy_pieces!(
            src,
            dst,
            len,
            ("0", "0"),
            ("1", "32"),
            ("2", "{len} - 64"),
            ("3", "{len} - 32")
        );
    }
}

/// Copies 128 to 256 bytes.
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_128_to_256(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 128 bytes; (d).
    unsafe {
        copy_pieces!(
            src,
            dst,
            len,
            ("0", "0"),
            ("1", "32"),
            ("2", "64"),
            ("3", "96"),
            ("4", "{len} - 128"),
            ("5", "{len} - 96"),
            ("6", "{len} - 64"),
            ("7", "{len} - 32")
        );
    }
}

/// Copies 256 to 512 bytes.
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_256_to_512(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first and the last 256 bytes; (d).
    unsafe {
        copy_pieces!(
            src,
            dst,
            len,
            ("0", "0"),
            ("1", "32"),
            ("2", "64"),
            ("3", "96"),
            ("4", "128"),
            ("5", "160"),
            ("6", "192"),
            ("7", "224"),
            ("8", "{len} - 256"),
            ("9", "{len} - 224"),
            ("10", "{len} - 192"),
            ("11", "{len} - 160"),
            ("12", "{len} - 128"),
            ("13", "{len} - 96"),
            ("14", "{len} - 64"),
            ("15", "{len} - 32")
        );
    }
}

/// Copies 160 bytes or more, from the first to the last.
///
/// The first 32 and the last 128 bytes are stored wherever they are; between them, a turn of the
/// loop stores 128 bytes from a multiple of 32 on.
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_forward(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the first 32 bytes, the last 128, and every turn of the loop, since
    // it begins more than 128 bytes before the end; (d).
    unsafe {
        asm!(
            "vmovdqu ymm4, [{src}]",
            "vmovdqu ymm5, [{src} + {len} - 128]",
            "vmovdqu ymm6, [{src} + {len} - 96]",
            "vmovdqu ymm7, [{src} + {len} - 64]",
            "vmovdqu ymm8, [{src} + {len} - 32]",
            "vmovdqu [{dst}], ymm4",
            // From here on `len` is where the last 128 bytes begin, and `src` is relative to `dst`.
            "lea {len}, [{dst} + {len} - 128]",
            "sub {src}, {dst}",
            "add {dst}, 32",
            "and {dst}, -32",
            ".p2align 5",
            "2:",
            "vmovdqu ymm0, [{src} + {dst}]",
            "vmovdqu ymm1, [{src} + {dst} + 32]",
            "vmovdqu ymm2, [{src} + {dst} + 64]",
            "vmovdqu ymm3, [{src} + {dst} + 96]",
            "vmovdqa [{dst}], ymm0",
            "vmovdqa [{dst} + 32], ymm1",
            "vmovdqa [{dst} + 64], ymm2",
            "vmovdqa [{dst} + 96], ymm3",
            "add {dst}, 128",
            "cmp {dst}, {len}",
            "jb 2b",
            "vmovdqu [{len}], ymm5",
            "vmovdqu [{len} + 32], ymm6",
            "vmovdqu [{len} + 64], ymm7",
            "vmovdqu [{len} + 96], ymm8",
            "vzeroupper",
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            len = inout(reg) len => _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            options(nostack),
        );
    }
}

/// Copies 160 bytes or more, from the last to the first: the mirror image of [`copy_forward`].
///
/// # Safety
///
/// As for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn copy_backward(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: (a) and (b) cover the last 32 bytes, the first 128, and every turn of the loop, since
    // it ends more than 128 bytes after the start; (d).
    unsafe {
        asm!(
            "vmovdqu ymm4, [{src} + {len} - 32]",
            "vmovdqu ymm5, [{src}]",
            "vmovdqu ymm6, [{src} + 32]",
            "vmovdqu ymm7, [{src} + 64]",
            "vmovdqu ymm8, [{src} + 96]",
            "vmovdqu [{dst} + {len} - 32], ymm4",
            // From here on `len` is where the next turn ends, and `src` is relative to `dst`.
            "lea {len}, [{dst} + {len} - 1]",
            "and {len}, -32",
            "sub {src}, {dst}",
            "lea {first_end}, [{dst} + 128]",
            ".p2align 5",
            "2:",
            "vmovdqu ymm0, [{src} + {len} - 32]",
            "vmovdqu ymm1, [{src} + {len} - 64]",
            "vmovdqu ymm2, [{src} + {len} - 96]",
            "vmovdqu ymm3, [{src} + {len} - 128]",
            "vmovdqa [{len} - 32], ymm0",
            "vmovdqa [{len} - 64], ymm1",
            "vmovdqa [{len} - 96], ymm2",
            "vmovdqa [{len} - 128], ymm3",
            "add {len}, -128",
            "cmp {len}, {first_end}",
            "ja 2b",
            "vmovdqu [{dst}], ymm5",
            "vmovdqu [{dst} + 32], ymm6",
            "vmovdqu [{dst} + 64], ymm7",
            "vmovdqu [{dst} + 96], ymm8",
            "vzeroupper",
            src = inout(reg) src => _,
            dst = in(reg) dst,
            len = inout(reg) len => _,
            first_end = out(reg) _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            options(nostack),
        );
    }
}

/// Makes 64 bytes or more zero, in the manner of [`copy_forward`].
///
/// # Safety
///
/// (b) as for [`copy`], and (d) the processor has AVX.
#[inline(always)]
unsafe fn zero_long(dst: *mut u8, len: usize) {
    // SAFETY: (b) covers the first 32 bytes, the last 64, and every turn of the loop, since it
    // begins more than 64 bytes before the end; (d).
    unsafe {
        asm!(
            "vxorps xmm0, xmm0, xmm0",
            "vmovdqu [{dst}], ymm0",
            // From here on `len` is where the last 64 bytes begin.
            "lea {len}, [{dst} + {len} - 64]",
            "add {dst}, 32",
            "and {dst}, -32",
            "cmp {dst}, {len}",
            "jae 3f",
            ".p2align 5",
            "2:",
            "vmovdqa [{dst}], ymm0",
            "vmovdqa [{dst} + 32], ymm0",
            "add {dst}, 64",
            "cmp {dst}, {len}",
            "jb 2b",
            "3:",
            "vmovdqu [{len}], ymm0",
            "vmovdqu [{len} + 32], ymm0",
            "vzeroupper",
            dst = inout(reg) dst => _,
            len = inout(reg) len => _,
            out("xmm0") _,
            options(nostack),
        );
    }
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
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    /// All lengths that a piece takes, whether or not [`copy_long`] would choose it, at all
    /// alignments of the destination and some of the source.
    fn copies(copy: Copy, lengths: std::ops::RangeInclusive<usize>) {
        let src: Vec<u8> = (0..1100).map(|i| (i % 251) as u8).collect();
        for dst_off in 32..64 {
            for src_off in [0, 1, 16, 31] {
                for len in lengths.clone() {
                    let mut dst = vec![0xA5; dst_off + len + 32];
                    let from = src[src_off..].as_ptr();
                    // SAFETY: (a), (b) both vectors are long enough; (d) was asked for below.
                    unsafe { copy(from, dst[dst_off..].as_mut_ptr(), len) };
                    let (before, rest) = dst.split_at(dst_off);
                    let (copied, behind) = rest.split_at(len);
                    assert!(before.iter().all(|&byte| byte == 0xA5), "{len}");
                    assert!(*copied == src[src_off..][..len], "{len}");
                    assert!(behind.iter().all(|&byte| byte == 0xA5), "{len}");
                }
            }
        }
    }

    #[test]
    fn every_piece_copies_every_length_that_it_takes() {
        copies(copy_1_to_3, 1..=3);
        copies(copy_4_to_8, 4..=8);
        copies(copy_8_to_16, 8..=16);
        copies(copy_16_to_32, 16..=32);
        copies(copy_32_to_64, 32..=64);
        copies(copy_without_avx, 64..=1000);
        if std::is_x86_feature_detected!("avx") {
            copies(copy_64_to_128, 64..=128);
            copies(copy_128_to_256, 128..=256);
            copies(copy_256_to_512, 256..=512);
            copies(copy_forward, 160..=1000);
            copies(copy_backward, 160..=1000);
            copies(copy_with_avx, 65..=1000);
        }
    }
}
