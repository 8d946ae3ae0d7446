//! The widths of moves: which registers and instructions each uses.

use super::wide::aliases;

/// Moves of 16 bytes.
pub(super) mod sse2 {
    use super::aliases;

    by_length!(128 => copy_64_to_128, 256 => copy_128_to_256);
    pieces!(
        copy_64_to_128, sse!("movups"), "16", "",
        "64": [
            "0" => "xmm0" "xmm4", "1" => "xmm1" "xmm5", "2" => "xmm2" "xmm6", "3" => "xmm3" "xmm7"
        ]
    );
    pieces!(
        copy_128_to_256, sse!("movups"), "16", "",
        "128": [
            "0" => "xmm0" "xmm8", "1" => "xmm1" "xmm9", "2" => "xmm2" "xmm10",
            "3" => "xmm3" "xmm11", "4" => "xmm4" "xmm12", "5" => "xmm5" "xmm13",
            "6" => "xmm6" "xmm14", "7" => "xmm7" "xmm15"
        ]
    );
    loops!(
        sse!("movups"),
        sse!("movaps"),
        "16",
        "",
        sse!(clear),
        [
            "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"
        ],
        ["0", "1", "2", "3"]
    );
}

/// Moves of 32 bytes, which nearly all processors since 2013 have. Where stores are 32 bytes wide
/// internally (Zen 4 and earlier), they are as fast as moves of 64 bytes.
pub(super) mod avx {
    use super::aliases;

    by_length!(128 => copy_64_to_128, 256 => copy_128_to_256, 512 => copy_256_to_512);
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
            "0" => "ymm0" "ymm8", "1" => "ymm1" "ymm9", "2" => "ymm2" "ymm10",
            "3" => "ymm3" "ymm11", "4" => "ymm4" "ymm12", "5" => "ymm5" "ymm13",
            "6" => "ymm6" "ymm14", "7" => "ymm7" "ymm15"
        ]
    );
    loops!(
        "vmovdqu",
        "vmovdqa",
        "32",
        "vzeroupper",
        "vxorps xmm0, xmm0, xmm0",
        [
            "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8"
        ],
        ["0", "1"]
    );
}

/// Moves of 64 bytes: one cache line each.
///
/// Only the vector registers 16 to 31 are used. Older encodings cannot name them, so there is no
/// transition penalty in older code and no need of `vzeroupper`.
pub(super) mod avx512 {
    use super::aliases;

    by_length!(
        128 => copy_64_to_128, 256 => copy_128_to_256, 512 => copy_256_to_512,
        1024 => copy_512_to_1024
    );
    pieces!(copy_64_to_128, "vmovdqu64", "64", "", "64": ["0" => "zmm16" "zmm17"]);
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
    pieces!(
        copy_512_to_1024, "vmovdqu64", "64", "",
        "512": [
            "0" => "zmm16" "zmm24", "1" => "zmm17" "zmm25", "2" => "zmm18" "zmm26",
            "3" => "zmm19" "zmm27", "4" => "zmm20" "zmm28", "5" => "zmm21" "zmm29",
            "6" => "zmm22" "zmm30", "7" => "zmm23" "zmm31"
        ]
    );
    loops!(
        "vmovdqu64",
        "vmovdqa64",
        "64",
        "",
        "vpxorq zmm16, zmm16, zmm16",
        [
            "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23", "zmm24"
        ],
        ["0"]
    );
}
