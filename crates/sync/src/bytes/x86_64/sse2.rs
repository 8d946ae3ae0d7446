//! Variant with moves of 16 bytes, which every x86-64 processor has.

use super::wide::aliases;

/// Copies more than 64 bytes. Safety: (a) and (b) of [`super::copy`]. (d) requires nothing.
#[inline(always)]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    if len <= 128 {
        // SAFETY: here and below, the caller ensures (a), (b), and the callee accepts this length.
        unsafe { copy_64_to_128(src, dst, len) }
    } else if len <= 256 {
        // SAFETY: as above.
        unsafe { copy_128_to_256(src, dst, len) }
    } else if aliases(src, dst) {
        // SAFETY: as above.
        unsafe { backward(src, dst, len) }
    } else {
        // SAFETY: as above.
        unsafe { forward(src, dst, len) }
    }
}

pieces!(
    copy_64_to_128, sse!("movups"), "16", "",
    "64": ["0" => "xmm0" "xmm4", "1" => "xmm1" "xmm5", "2" => "xmm2" "xmm6", "3" => "xmm3" "xmm7"]
);
pieces!(
    copy_128_to_256, sse!("movups"), "16", "",
    "128": [
        "0" => "xmm0" "xmm8", "1" => "xmm1" "xmm9", "2" => "xmm2" "xmm10", "3" => "xmm3" "xmm11",
        "4" => "xmm4" "xmm12", "5" => "xmm5" "xmm13", "6" => "xmm6" "xmm14", "7" => "xmm7" "xmm15"
    ]
);
loops!(
    sse!("movups"),
    sse!("movaps"),
    "16",
    "",
    [
        "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"
    ]
);
zeros!(
    sse!("movups"),
    sse!("movaps"),
    "16",
    "",
    sse!(clear),
    "xmm0",
    ["0", "1", "2", "3"]
);
