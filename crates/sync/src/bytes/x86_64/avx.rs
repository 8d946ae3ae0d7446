//! Variant with moves of 32 bytes, which nearly all processors since 2013 have. Where stores are 32
//! bytes wide internally (Zen 4 and earlier), it is as fast as moves of 64 bytes.

use super::wide::aliases;

/// Copies more than 64 bytes. Safety: (a) and (b) of [`super::copy`], and (d) AVX is usable.
#[inline(always)]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len <= 128 {
        // SAFETY: here and below, the caller ensures (a), (b), (d); the callee accepts this length.
        unsafe { copy_64_to_128(src, dst, len) }
    } else if len <= 256 {
        // SAFETY: as above.
        unsafe { copy_128_to_256(src, dst, len) }
    } else if len <= 512 {
        // SAFETY: as above.
        unsafe { copy_256_to_512(src, dst, len) }
    } else if aliases(src, dst) {
        // SAFETY: as above.
        unsafe { backward(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { forward(src, dst, len) }
    }
}

pieces!(
    copy_64_to_128, "vmovdqu", "32", "vzeroupper",
    "64": ["0" => "ymm0" "ymm2", "1" => "ymm1" "ymm3"]
);
pieces!(
    copy_128_to_256, "vmovdqu", "32", "vzeroupper",
    "128": [
        "0" => "ymm0" "ymm4", "1" => "ymm1" "ymm5", "2" => "ymm2" "ymm6", "3" => "ymm3" "ymm7"
    ]
);
pieces!(
    copy_256_to_512, "vmovdqu", "32", "vzeroupper",
    "256": [
        "0" => "ymm0" "ymm8", "1" => "ymm1" "ymm9", "2" => "ymm2" "ymm10", "3" => "ymm3" "ymm11",
        "4" => "ymm4" "ymm12", "5" => "ymm5" "ymm13", "6" => "ymm6" "ymm14", "7" => "ymm7" "ymm15"
    ]
);
loops!(
    "vmovdqu",
    "vmovdqa",
    "32",
    "vzeroupper",
    [
        "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8"
    ]
);
zeros!(
    "vmovdqu",
    "vmovdqa",
    "32",
    "vzeroupper",
    "vxorps xmm0, xmm0, xmm0",
    "ymm0",
    ["0", "1"]
);
