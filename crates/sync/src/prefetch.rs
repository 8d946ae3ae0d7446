//! Hints to the processor and the compiler, for the hit path.

#![allow(unsafe_code)] // One instruction, and none.

/// Prefetches the cache line at `place`, without waiting for it. Any address is permitted, even an
/// unmapped one. Does nothing on other processors than x86-64, under loom and under Miri.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: every x86-64 has the instruction. It never faults, and the language does not regard
    // it as an access.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = place;
}

/// Returns the same reference, and hides from the compiler how its address was computed. For a word
/// that a short read loads twice: otherwise it takes two registers (base, index), and one is
/// spilled.
#[allow(clippy::pointers_in_nomem_asm_block)] // The pointer is not dereferenced.
#[inline(always)]
pub fn in_one_register<T>(word: &T) -> &T {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        let mut place: *const T = word;
        // SAFETY: no instruction is emitted.
        unsafe {
            std::arch::asm!(
                "/* {0} */",
                inout(reg) place,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        // SAFETY: `place` is the address of `word`, borrowed for as long as the result.
        unsafe { &*place }
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    word
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reference_in_one_register_is_the_same() {
        let words = [1, 2, 3];
        for word in &words {
            assert!(std::ptr::eq(in_one_register(word), word));
        }
    }

    #[test]
    fn any_address_will_do() {
        prefetch(&7);
        prefetch(std::ptr::null::<u8>());
        prefetch(std::ptr::without_provenance::<u64>(usize::MAX));
    }
}
