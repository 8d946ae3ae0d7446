//! What the system says of the machine's memory.

#![allow(unsafe_code)] // Calls of the system.

/// The memory of the machine in bytes, if the system says.
pub(crate) fn machine_memory() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).ok()?.checked_mul(system_page_bytes()?)
}

/// The size of the system's own pages in bytes, if the system says.
pub(crate) fn system_page_bytes() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok()
}
