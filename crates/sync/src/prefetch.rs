//! What hits tell the processor and the compiler beside their loads: memory that will be wanted, and an address to be kept whole.

#![allow(unsafe_code)] // One instruction, and none.

/// Asks the processor to load the cache line at `place`, and goes on. A hint: nothing is read, and an address where no memory is does no
/// harm. Does nothing where the processor is not known to have such an instruction.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: the instruction is part of every x86-64, accesses no memory as the language sees it, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = place;
}

/// The same reference, of which the compiler does not know any more how its address was made.
///
/// For a word that is loaded, and loaded again at the end: else the compiler keeps a base and an index for it, which takes two registers
/// all the while, and in a short read the stack has to make up for the second.
#[allow(clippy::pointers_in_nomem_asm_block)] // The pointer is not followed: there is no instruction.
#[inline(always)]
pub fn in_one_register<T>(word: &T) -> &T {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        let mut place: *const T = word;
        // SAFETY: there is no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) place, options(pure, nomem, nostack, preserves_flags));
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
