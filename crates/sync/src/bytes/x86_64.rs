//! Racy copies in x86-64 assembly.
//!
//! The [parent module](super) explains why the order of the loads and stores is guaranteed.
//!
//! | bytes | implementation |
//! |---|---|
//! | 1, 2, 4, 8, 16 to a value | inlined: one move, or two of 8, to registers |
//! | 1 to 64 | inlined: two or four overlapping moves, from both ends (1 to 3: three) |
//! | more | a call: a load of the selected width, two predicted branches, and moves of that width |
//!
//! [`copy_out_inlined`] inlines the copies of more than 64 bytes, too.
//!
//! Copies of at most 64 bytes have one width: every x86-64 processor has moves of 16 bytes, and
//! dispatching would cost what wider moves save. The branches to the widths are direct, because
//! some systems disable the prediction of indirect branches.

#[macro_use]
mod wide;
mod widths;

use std::arch::asm;
use std::mem::MaybeUninit;

use self::widths::{avx, avx512, sse2};
use super::place::RacyBytes;
use super::width::{Width, in_use, selected_or_zero};

const INLINE: usize = 64;

static ZEROS: [u8; INLINE] = [0; INLINE];

#[inline(always)]
pub(super) fn copy_out(src: RacyBytes<'_>, dst: &mut [MaybeUninit<u8>]) {
    assert_eq!(src.len(), dst.len());
    // SAFETY: (a) follows from the obligations of `RacyBytes::new`. (b) `dst` is an exclusive
    // reference, and only initialized bytes are stored there.
    unsafe { copy(src.as_ptr(), dst.as_mut_ptr().cast(), dst.len()) }
}

/// Like [`copy_out`], but copies of every length are inlined.
#[inline(always)]
pub(super) fn copy_out_inlined(src: RacyBytes<'_>, dst: &mut [MaybeUninit<u8>]) {
    if dst.len() <= INLINE {
        return copy_out(src, dst);
    }
    assert_eq!(src.len(), dst.len());
    // SAFETY: (a) and (b) as in `copy_out`; the length was just checked.
    unsafe { copy_by_width(src.as_ptr(), dst.as_mut_ptr().cast(), dst.len()) }
}

/// Safety: (r) the `N` bytes from `off` on are in `src`. The moves use base-plus-index addresses,
/// so the addition of an offset to the address of a page takes no instruction.
#[inline(always)]
pub(super) unsafe fn load_value<const N: usize>(src: RacyBytes<'_>, off: usize) -> [u8; N] {
    let base = src.as_ptr();
    macro_rules! load {
        ($type:ty, $move:literal) => {{
            let value: $type;
            // SAFETY: the memory is valid for reads, by (r) and `RacyBytes::new`.
            unsafe {
                asm!(concat!($move, " ptr [{base} + {off}]"),
                    base = in(reg) base, off = in(reg) off, v = lateout(reg) value,
                    options(nostack, preserves_flags));
            }
            value.to_ne_bytes()
        }};
    }
    let mut bytes = [0; N];
    match N {
        1 => bytes.copy_from_slice(&load!(u32, "movzx {v:e}, byte")[..N]),
        2 => bytes.copy_from_slice(&load!(u32, "movzx {v:e}, word")[..N]),
        4 => bytes.copy_from_slice(&load!(u32, "mov {v:e}, dword")),
        8 => bytes.copy_from_slice(&load!(u64, "mov {v}, qword")),
        16 => {
            let (low, high): (u64, u64);
            // SAFETY: as above.
            unsafe {
                asm!("mov {l}, qword ptr [{base} + {off}]",
                    "mov {h}, qword ptr [{base} + {off} + 8]",
                    base = in(reg) base, off = in(reg) off, l = out(reg) low, h = lateout(reg) high,
                    options(nostack, preserves_flags));
            }
            let (low_bytes, high_bytes) = bytes.split_at_mut(8);
            low_bytes.copy_from_slice(&low.to_ne_bytes());
            high_bytes.copy_from_slice(&high.to_ne_bytes());
        }
        // SAFETY: the caller ensures (r); (d) the array is local.
        _ => unsafe { src.copy_to_unchecked(off, bytes.as_mut_ptr(), N) },
    }
    bytes
}

#[inline]
pub(super) fn copy_in(dst: RacyBytes<'_>, src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    // SAFETY: (a) no thread writes to the shared `src`. (b) follows from `RacyBytes::new`.
    unsafe { copy(src.as_ptr(), dst.as_ptr(), src.len()) }
}

#[inline]
pub(super) fn copy_between(dst: RacyBytes<'_>, src: RacyBytes<'_>) {
    assert_eq!(dst.len(), src.len());
    // SAFETY: (a) and (b) follow from the obligations of `RacyBytes::new`.
    unsafe { copy(src.as_ptr(), dst.as_ptr(), src.len()) }
}

pub(super) fn zero(dst: RacyBytes<'_>) {
    if dst.len() <= INLINE {
        return copy_in(dst, &ZEROS[..dst.len()]);
    }
    zero_with(in_use().unwrap_or(Width::Sse2), dst);
}

/// `src` and `dst` must have the same length, and `width` must be supported.
pub(super) fn copy_with(width: Width, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
    assert_eq!(dst.len(), src.len());
    if dst.len() <= INLINE {
        return copy_between(dst, src);
    }
    let copy = match width {
        Width::Sse2 => sse2::copy,
        Width::Avx => avx::copy,
        Width::Avx512 => avx512::copy,
    };
    // SAFETY: (a), (b) follow from `RacyBytes::new`; (d) the caller has checked `width`.
    unsafe { copy(src.as_ptr(), dst.as_ptr(), dst.len()) }
}

/// `width` must be supported.
pub(super) fn zero_with(width: Width, dst: RacyBytes<'_>) {
    if dst.len() <= INLINE {
        return zero(dst);
    }
    let zero = match width {
        Width::Sse2 => sse2::zero,
        Width::Avx => avx::zero,
        Width::Avx512 => avx512::zero,
    };
    // SAFETY: (b) follows from `RacyBytes::new`; (d) as in `copy_with`.
    unsafe { zero(dst.as_ptr(), dst.len()) }
}

/// Copies `len` bytes. Each general register that any branch of the inlined copy uses, even a rare
/// one, may force a value of the caller onto the stack. Bytes therefore pass through vector
/// registers, and 1 to 3 bytes through a single general register.
///
/// If the ranges overlap, some of the stored bytes are an arbitrary mixture of the old ones.
///
/// # Safety
///
/// - (a) `src` is valid for reads of `len` bytes. Concurrent writes to them use a [`RacyBytes`].
/// - (b) `dst` is valid for writes of `len` bytes. Concurrent accesses to them use a [`RacyBytes`].
#[inline(always)]
unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len > INLINE {
        // SAFETY: here and below, the caller ensures (a), (b), and the callee accepts this length.
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

/// Copies 1 to 3 bytes: the first, the middle and the last one. Safety: as for [`copy`].
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

/// `both_ends!(name, move, size of the operand, bytes)`: defines a function that copies as many
/// bytes as one move does, to twice as many: the first and the last ones.
macro_rules! both_ends {
    ($name:ident, $move:expr, $operand:literal, $bytes:literal) => {
        /// Safety: as for [`copy`].
        #[inline(always)]
        unsafe fn $name(src: *const u8, dst: *mut u8, len: usize) {
            // SAFETY: (a) and (b) cover the first and the last bytes.
            unsafe {
                asm!(
                    concat!($move, " {a}, ", $operand, "[{src}]"),
                    concat!($move, " {b}, ", $operand, "[{src} + {len} - ", $bytes, "]"),
                    concat!($move, " ", $operand, "[{dst}], {a}"),
                    concat!($move, " ", $operand, "[{dst} + {len} - ", $bytes, "], {b}"),
                    src = in(reg) src,
                    dst = in(reg) dst,
                    len = in(reg) len,
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

both_ends!(copy_4_to_8, "movd", "dword ptr ", "4");
both_ends!(copy_8_to_16, "movq", "qword ptr ", "8");
both_ends!(copy_16_to_32, sse!("movups"), "", "16");

/// Copies 32 to 64 bytes. Safety: as for [`copy`].
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

/// Copies more than [`INLINE`] bytes. Safety: as for [`copy`].
#[inline(never)]
unsafe fn copy_long(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's obligations.
    unsafe { copy_by_width(src, dst, len) }
}

/// Copies more than [`INLINE`] bytes. Safety: as for [`copy`].
#[inline(always)]
unsafe fn copy_by_width(src: *const u8, dst: *mut u8, len: usize) {
    // Inequalities: the compiler would reorder comparisons for equality, and the widest moves take
    // the least time.
    let selected = selected_or_zero();
    if selected >= Width::Avx512 as u32 {
        // SAFETY: here and below, the caller ensures (a), (b), and the callee accepts this length;
        // (d) a selected width is supported.
        unsafe { avx512::copy(src, dst, len) }
    } else if selected >= Width::Avx as u32 {
        // SAFETY: as above.
        unsafe { avx::copy(src, dst, len) }
    } else {
        // SAFETY: as above; every x86-64 processor supports SSE2.
        unsafe { sse2::copy(src, dst, len) }
    }
}

#[inline]
pub(super) fn expect_write(address: *const u8) {
    // SAFETY: a prefetch has no effect on memory, whatever the address.
    unsafe {
        asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(test)]
mod tests;
