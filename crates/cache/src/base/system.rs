//! Memory of the machine, as reported by the operating system.

#![allow(unsafe_code)] // Calls of `sysconf`.

/// Returns the size of the machine's memory in bytes, if the system reports it.
pub(crate) fn machine_memory() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).ok()?.checked_mul(system_page_bytes()?)
}

/// Returns the size of the system's pages in bytes, if the system reports it.
pub(crate) fn system_page_bytes() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok()
}
