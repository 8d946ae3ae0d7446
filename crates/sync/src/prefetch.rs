//! Hints of the hit path: a cache-line prefetch, and an address kept in one register.

#![allow(unsafe_code)] // One instruction, and none.

/// Prefetches the cache line at `place`, without waiting. A hint: any address is harmless, even an
/// unmapped one. Does nothing if the target has no known prefetch instruction.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: every x86-64 has the instruction. It never faults, and to the language it is no
    // access.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = place;
}

/// Returns the same reference, and hides from the compiler how its address was computed.
///
/// For a word that a read loads twice, at its beginning and at its end. Otherwise the compiler
/// keeps a base and an index for it in two registers throughout, and a short read has to spill one.
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
        // SAFETY: the address of `word`, which is borrowed for as long.
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
