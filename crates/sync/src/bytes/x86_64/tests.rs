//! Tests of each piece and loop, and of the vector registers that each must preserve.

use super::*;
use crate::bytes::width;

type Copy = unsafe fn(*const u8, *mut u8, usize);

/// Tests all lengths of a piece, at all alignments of the destination and some of the source.
fn copies(copy: Copy, lengths: std::ops::RangeInclusive<usize>) {
    let src: Vec<u8> = (0..2300).map(|i| (i % 251) as u8).collect();
    for dst_off in 64..128 {
        for src_off in [0, 1, 16, 31, 63] {
            for len in lengths.clone() {
                let mut dst = vec![0xA5; dst_off + len + 64];
                let from = src[src_off..].as_ptr();
                // SAFETY: (a), (b) both vectors are long enough; (d) is checked by the caller.
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
    copies(sse2::copy_64_to_128, 64..=128);
    copies(sse2::copy_128_to_256, 128..=256);
    copies(sse2::forward, 80..=600);
    copies(sse2::backward, 80..=600);
    copies(sse2::copy, 65..=600);
    if Width::Avx.check().is_ok() {
        copies(avx::copy_64_to_128, 64..=128);
        copies(avx::copy_128_to_256, 128..=256);
        copies(avx::copy_256_to_512, 256..=512);
        copies(avx::forward, 160..=1000);
        copies(avx::backward, 160..=1000);
        copies(avx::copy, 65..=1000);
    } else {
        println!("skipped: the processor lacks moves of 32 bytes");
    }
    if Width::Avx512.check().is_ok() {
        copies(avx512::copy_64_to_128, 64..=128);
        copies(avx512::copy_128_to_256, 128..=256);
        copies(avx512::copy_256_to_512, 256..=512);
        copies(avx512::copy_512_to_1024, 512..=1024);
        copies(avx512::forward, 320..=1400);
        copies(avx512::backward, 320..=1400);
        copies(avx512::copy, 65..=1400);
    } else {
        println!("skipped: the processor lacks moves of 64 bytes");
    }
}

/// Loads `count` values before `work` and stores them after it. The compiler keeps them in
/// registers that it assumes to be preserved. Regression: in a crate compiled for AVX, `zero`
/// cleared the upper halves of the caller's vector registers. `vzeroupper` clears those of the
/// registers 0 to 15, but the `asm!` of `zero` declared only `xmm0` clobbered, and other functions
/// only the registers 0 to 8.
macro_rules! survivors {
    ($name:ident, $feature:literal, $vector:ident, $load:literal, $register:ident,
        [$($value:ident)+]) => {
        #[target_feature(enable = $feature)]
        #[inline(never)]
        fn $name(work: impl Fn()) {
            use std::arch::x86_64::$vector;
            const COUNT: usize = [$(stringify!($value)),+].len();
            let from: [[u8; size_of::<$vector>()]; COUNT] =
                std::array::from_fn(|i| std::array::from_fn(|j| (i * 7 + j) as u8 | 1));
            let mut to = [[0_u8; size_of::<$vector>()]; COUNT];
            let place = std::hint::black_box(&from);
            let mut places = place.iter();
            $(
                let place = places.next().unwrap().as_ptr();
                let $value: $vector;
                // SAFETY: the instruction loads one vector, which has the size of the array.
                unsafe {
                    std::arch::asm!(
                        concat!($load, " {}, [{}]"), out($register) $value, in(reg) place,
                        options(nostack, preserves_flags, pure, readonly)
                    );
                }
            )+
            work();
            let mut places = to.iter_mut();
            $(
                let place = places.next().unwrap().as_mut_ptr();
                // SAFETY: the instruction stores one vector, which has the size of the array.
                unsafe {
                    std::arch::asm!(
                        concat!($load, " [{}], {}"), in(reg) place, in($register) $value,
                        options(nostack, preserves_flags)
                    );
                }
            )+
            assert!(to == from, "a vector register was clobbered");
        }
    };
}

survivors!(
    beside_avx, "avx", __m256i, "vmovdqu", ymm_reg,
    [a b c d e f g h i j k l m n]
);
survivors!(
    beside_avx512, "avx512f", __m512i, "vmovdqu64", zmm_reg,
    [a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc dd]
);

/// Runs every template, inlined, between the loads and the stores of `$beside`.
macro_rules! survive {
    ($beside:ident, $($template:path: $len:literal),+) => {
        $({
            let src = [7_u8; 2048];
            let mut dst = [0_u8; 2048];
            let to = std::hint::black_box(&mut dst).as_mut_ptr();
            // SAFETY: the processor feature was checked; (a) and (b) both arrays are long enough.
            unsafe {
                $beside(
                    #[inline(always)]
                    || $template(src.as_ptr(), to, $len),
                );
            }
            assert!(dst[..$len] == src[..$len]);
        })+
    };
}

macro_rules! survive_zero {
    ($beside:ident, $($template:path),+) => {
        $({
            let mut dst = [7_u8; 300];
            let to = std::hint::black_box(&mut dst).as_mut_ptr();
            // SAFETY: the processor feature was checked; (b) the array is long enough.
            unsafe {
                $beside(
                    #[inline(always)]
                    || $template(to, 300),
                );
            }
            assert_eq!(dst, [0; 300]);
        })+
    };
}

#[test]
fn vector_registers_survive_beside_values_of_32_bytes() {
    if Width::Avx.check().is_err() {
        println!("skipped: the processor lacks registers of 32 bytes");
        return;
    }
    survive!(
        beside_avx,
        copy_16_to_32: 20,
        copy_32_to_64: 50,
        sse2::copy_64_to_128: 100,
        sse2::copy_128_to_256: 200,
        sse2::forward: 2000,
        sse2::backward: 2000,
        avx::copy_64_to_128: 100,
        avx::copy_128_to_256: 200,
        avx::copy_256_to_512: 300,
        avx::forward: 2000,
        avx::backward: 2000
    );
    survive_zero!(beside_avx, sse2::zero, avx::zero);
}

#[test]
fn vector_registers_survive_beside_values_of_64_bytes() {
    if Width::Avx512.check().is_err() {
        println!("skipped: the processor lacks registers of 64 bytes");
        return;
    }
    survive!(
        beside_avx512,
        copy_32_to_64: 50,
        sse2::copy_64_to_128: 100,
        sse2::copy_128_to_256: 200,
        sse2::forward: 2000,
        avx::copy_64_to_128: 100,
        avx::copy_128_to_256: 200,
        avx::copy_256_to_512: 300,
        avx::forward: 2000,
        avx::backward: 2000,
        avx512::copy_64_to_128: 100,
        avx512::copy_128_to_256: 200,
        avx512::copy_256_to_512: 300,
        avx512::copy_512_to_1024: 600,
        avx512::forward: 2000,
        avx512::backward: 2000
    );
    survive_zero!(beside_avx512, sse2::zero, avx::zero, avx512::zero);
}

/// A caller that emulates a processor names its width in `PAGEWELL_TEST_WIDTH` (`.ci/nightly`).
#[test]
fn the_default_width_is_supported_and_that_of_the_processor() {
    let width = width::default_width().unwrap();
    width.check().unwrap();
    if let Ok(expected) = std::env::var("PAGEWELL_TEST_WIDTH") {
        assert_eq!(width.name(), expected);
    }
}
