//! Prefetching: having memory on its way before it is loaded.

#![allow(unsafe_code)] // One instruction.

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        prefetch(&7);
        prefetch(std::ptr::null::<u8>());
        prefetch(std::ptr::without_provenance::<u64>(usize::MAX));
    }
}
