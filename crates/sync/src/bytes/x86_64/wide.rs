//! Templates of the copies, for moves of any width.
//!
//! | bytes | implementation |
//! |---|---|
//! | up to 16 registers | pieces: overlapping loads from both ends, then as many stores |
//! | more | a loop: four aligned stores per iteration, and overlapping moves at both ends |
//!
//! The pieces that run depend only on the length class, so few branches are mispredicted.
//!
//! A forward loop stalls if the destination is ahead of the source by a few bytes modulo 4096: the
//! processor compares only the low address bits, and so finds a false dependency of a load on the
//! latest store. This is common: pages begin at page boundaries, and large allocations 16 bytes
//! after one. A backward loop has no such dependency and is used in this case.
//!
//! # Clobbers
//!
//! Every `asm!` here uses `vector_asm!`, which declares all vector registers clobbered in full
//! width: `vzeroupper` clears the upper parts of the registers 0 to 15, where a caller compiled for
//! AVX may have values. After a call, this costs nothing, since no vector register keeps a value
//! across it; where a copy is inlined instead, the caller is a function without such values.
//! (The short copies of the parent module clobber only the registers that they
//! declare, and have no `vzeroupper`.) The loops change the flags, which are clobbered, but not the
//! direction flag (clear, as the ABI requires), the opmask registers or the stack.
//!
//! Verified by `vector_registers_survive_*`, also with `-C target-cpu=native` (`.ci/nightly`).

/// A destination ahead of the source by less than this, modulo 4096, is copied backward.
pub(super) const ALIAS_BYTES: usize = 64;

/// Returns `true` if loads of a forward copy would have false dependencies on earlier stores.
#[inline(always)]
pub(super) fn aliases(src: *const u8, dst: *mut u8) -> bool {
    let ahead = dst.addr().wrapping_sub(src.addr()) % 4096;
    (1..ALIAS_BYTES).contains(&ahead)
}

macro_rules! vector_asm {
    ($($arguments:tt)*) => {
        std::arch::asm!(
            $($arguments)*,
            out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _,
            out("zmm4") _, out("zmm5") _, out("zmm6") _, out("zmm7") _,
            out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
            out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _,
            out("zmm16") _, out("zmm17") _, out("zmm18") _, out("zmm19") _,
            out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            options(nostack),
        )
    };
}

/// Expands to the mnemonic of an SSE instruction, in the encoding (legacy or VEX) of the
/// surrounding code, since switching is slow. `clear` expands to an instruction that zeros `xmm0`.
#[cfg(target_feature = "avx")]
macro_rules! sse {
    (clear) => {
        "vpxor xmm0, xmm0, xmm0"
    };
    ($mnemonic:literal) => {
        concat!("v", $mnemonic)
    };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! sse {
    (clear) => {
        "pxor xmm0, xmm0"
    };
    ($mnemonic:literal) => {
        $mnemonic
    };
}

macro_rules! movups {
    ($operands:literal) => {
        concat!(sse!("movups"), " ", $operands)
    };
}

/// `by_length!(length => piece, ..)`: defines `copy`, which copies up to each length by its piece,
/// and more by a loop.
macro_rules! by_length {
    ($($most:literal => $piece:ident),+) => {
        /// Copies more than 64 bytes. Safety: (a) and (b) of [`super::super::copy`], and (d) the
        /// processor supports moves of this width.
        #[inline(always)]
        pub(in super::super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
            // SAFETY: here and below, the caller ensures (a), (b), (d), and the callee accepts this
            // length.
            unsafe {
                $(if len <= $most { return $piece(src, dst, len); })+
                if aliases(src, dst) { backward(src, dst, len) } else { forward(src, dst, len) }
            }
        }
    };
}

/// `pieces!(name, move, width, end, half: [i => first second, ..])`: defines a function that loads
/// the first and the last `half` bytes, then stores them. It copies `half` to twice `half` bytes.
macro_rules! pieces {
    (
        $(#[$attribute:meta])*
        $name:ident, $move:expr, $width:literal, $end:literal,
        $half:literal: [$($i:literal => $first:literal $second:literal),+]
    ) => {
        $(#[$attribute])*
        /// Safety: as for [`copy`].
        #[inline(always)]
        pub(in super::super) unsafe fn $name(src: *const u8, dst: *mut u8, len: usize) {
            // SAFETY: (a), (b) cover the first and the last `half` bytes. The caller ensures (d).
            unsafe {
                vector_asm!(
                    $(concat!($move, " ", $first, ", [{src} + ", $i, "*", $width, "]"),)+
                    $(concat!($move, " ", $second,
                        ", [{src} + {len} - ", $half, " + ", $i, "*", $width, "]"),)+
                    $(concat!($move, " [{dst} + ", $i, "*", $width, "], ", $first),)+
                    $(concat!($move,
                        " [{dst} + {len} - ", $half, " + ", $i, "*", $width, "], ", $second),)+
                    $end,
                    src = in(reg) src,
                    dst = in(reg) dst,
                    len = in(reg) len
                );
            }
        }
    };
}

/// `loops!(unaligned move, aligned move, width, end, clear, [nine registers], [i, ..])`: defines
/// `forward` and `backward`, which copy five times the width or more, and `zero`, whose iteration
/// stores 64 bytes, by a move of the first register, which `clear` zeros, at each `i` times the
/// width.
macro_rules! loops {
    (
        $move:expr, $aligned:expr, $width:literal, $end:literal, $clear:expr,
        [$r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal,
         $r5:literal, $r6:literal, $r7:literal, $r8:literal],
        [$($i:literal),+]
    ) => {
        /// Copies in ascending order. Safety: as for [`copy`], and `len` is at least 5 widths. The
        /// first move and the last four are unaligned. Between them, each iteration makes four
        /// aligned stores.
        #[inline(always)]
        pub(in super::super) unsafe fn forward(src: *const u8, dst: *mut u8, len: usize) {
            // SAFETY: (a) and (b) cover the first move, the last four, and every iteration, since
            // an iteration begins more than four moves before the end. The caller ensures (d).
            unsafe {
                vector_asm!(
                    concat!($move, " ", $r4, ", [{src}]"),
                    concat!($move, " ", $r5, ", [{src} + {len} - 4*", $width, "]"),
                    concat!($move, " ", $r6, ", [{src} + {len} - 3*", $width, "]"),
                    concat!($move, " ", $r7, ", [{src} + {len} - 2*", $width, "]"),
                    concat!($move, " ", $r8, ", [{src} + {len} - ", $width, "]"),
                    concat!($move, " [{dst}], ", $r4),
                    // Now the last four moves store at `len`, and `src` is relative to `dst`.
                    concat!("lea {len}, [{dst} + {len} - 4*", $width, "]"),
                    "sub {src}, {dst}",
                    concat!("add {dst}, ", $width),
                    concat!("and {dst}, -", $width),
                    ".p2align 5",
                    "2:",
                    concat!($move, " ", $r0, ", [{src} + {dst}]"),
                    concat!($move, " ", $r1, ", [{src} + {dst} + ", $width, "]"),
                    concat!($move, " ", $r2, ", [{src} + {dst} + 2*", $width, "]"),
                    concat!($move, " ", $r3, ", [{src} + {dst} + 3*", $width, "]"),
                    concat!($aligned, " [{dst}], ", $r0),
                    concat!($aligned, " [{dst} + ", $width, "], ", $r1),
                    concat!($aligned, " [{dst} + 2*", $width, "], ", $r2),
                    concat!($aligned, " [{dst} + 3*", $width, "], ", $r3),
                    concat!("add {dst}, 4*", $width),
                    "cmp {dst}, {len}",
                    "jb 2b",
                    concat!($move, " [{len}], ", $r5),
                    concat!($move, " [{len} + ", $width, "], ", $r6),
                    concat!($move, " [{len} + 2*", $width, "], ", $r7),
                    concat!($move, " [{len} + 3*", $width, "], ", $r8),
                    $end,
                    src = inout(reg) src => _,
                    dst = inout(reg) dst => _,
                    len = inout(reg) len => _
                );
            }
        }

        /// Copies from the last byte to the first. Safety: as for [`forward`].
        #[inline(always)]
        pub(in super::super) unsafe fn backward(src: *const u8, dst: *mut u8, len: usize) {
            // SAFETY: (a) and (b) cover the last move, the first four, and every iteration, since
            // an iteration ends more than four moves after the start. The caller ensures (d).
            unsafe {
                vector_asm!(
                    concat!($move, " ", $r4, ", [{src} + {len} - ", $width, "]"),
                    concat!($move, " ", $r5, ", [{src}]"),
                    concat!($move, " ", $r6, ", [{src} + ", $width, "]"),
                    concat!($move, " ", $r7, ", [{src} + 2*", $width, "]"),
                    concat!($move, " ", $r8, ", [{src} + 3*", $width, "]"),
                    concat!($move, " [{dst} + {len} - ", $width, "], ", $r4),
                    // `len` is now the end of the next iteration, and `src` is relative to `dst`.
                    "lea {len}, [{dst} + {len} - 1]",
                    concat!("and {len}, -", $width),
                    "sub {src}, {dst}",
                    concat!("lea {first_end}, [{dst} + 4*", $width, "]"),
                    ".p2align 5",
                    "2:",
                    concat!($move, " ", $r0, ", [{src} + {len} - ", $width, "]"),
                    concat!($move, " ", $r1, ", [{src} + {len} - 2*", $width, "]"),
                    concat!($move, " ", $r2, ", [{src} + {len} - 3*", $width, "]"),
                    concat!($move, " ", $r3, ", [{src} + {len} - 4*", $width, "]"),
                    concat!($aligned, " [{len} - ", $width, "], ", $r0),
                    concat!($aligned, " [{len} - 2*", $width, "], ", $r1),
                    concat!($aligned, " [{len} - 3*", $width, "], ", $r2),
                    concat!($aligned, " [{len} - 4*", $width, "], ", $r3),
                    concat!("add {len}, -4*", $width),
                    "cmp {len}, {first_end}",
                    "ja 2b",
                    concat!($move, " [{dst}], ", $r5),
                    concat!($move, " [{dst} + ", $width, "], ", $r6),
                    concat!($move, " [{dst} + 2*", $width, "], ", $r7),
                    concat!($move, " [{dst} + 3*", $width, "], ", $r8),
                    $end,
                    src = inout(reg) src => _,
                    dst = in(reg) dst,
                    len = inout(reg) len => _,
                    first_end = out(reg) _
                );
            }
        }

        /// Zeros 64 bytes or more. Safety: (b) and (d) of [`copy`].
        #[inline(always)]
        pub(in super::super) unsafe fn zero(dst: *mut u8, len: usize) {
            // SAFETY: (b) covers the first move, the last 64 bytes, and every iteration, since an
            // iteration begins more than 64 bytes before the end. The caller ensures (d).
            unsafe {
                vector_asm!(
                    $clear,
                    concat!($move, " [{dst}], ", $r0),
                    // From here on, `len` is the address of the last 64 bytes.
                    "lea {len}, [{dst} + {len} - 64]",
                    concat!("add {dst}, ", $width),
                    concat!("and {dst}, -", $width),
                    "cmp {dst}, {len}",
                    "jae 3f",
                    ".p2align 5",
                    "2:",
                    $(concat!($aligned, " [{dst} + ", $i, "*", $width, "], ", $r0),)+
                    "add {dst}, 64",
                    "cmp {dst}, {len}",
                    "jb 2b",
                    "3:",
                    $(concat!($move, " [{len} + ", $i, "*", $width, "], ", $r0),)+
                    $end,
                    dst = inout(reg) dst => _,
                    len = inout(reg) len => _
                );
            }
        }
    };
}
