//! Variant with moves of 64 bytes: one cache line each.
//!
//! Only the vector registers 16 to 31 are used. Older encodings cannot name them, so there is no
//! transition penalty in older code and no need of `vzeroupper`.

use super::wide::aliases;

/// Copies more than 64 bytes. Safety: (a) and (b) of [`super::copy`], and (d) AVX-512F is usable.
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
    copy_64_to_128, "vmovdqu64", "64", "",
    "64": ["0" => "zmm16" "zmm17"]
);
pieces!(
    copy_128_to_256, "vmovdqu64", "64", "",
    "128": ["0" => "zmm16" "zmm18", "1" => "zmm17" "zmm19"]
);
pieces!(
    copy_256_to_512, "vmovdqu64", "64", "",
    "256": [
        "0" => "zmm16" "zmm20", "1" => "zmm17" "zmm21",
        "2" => "zmm18" "zmm22", "3" => "zmm19" "zmm23"
    ]
);
loops!(
    "vmovdqu64",
    "vmovdqa64",
    "64",
    "",
    [
        "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23", "zmm24"
    ]
);
zeros!(
    "vmovdqu64",
    "vmovdqa64",
    "64",
    "",
    "vpxorq zmm16, zmm16, zmm16",
    "zmm16",
    ["0"]
);
