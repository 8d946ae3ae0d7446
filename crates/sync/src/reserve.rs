//! Reservation of addresses for large arrays that are used only in small part.

#![allow(unsafe_code)] // A mapping.

use std::io;
use std::ptr::{self, NonNull};

/// Maps `bytes` zeros, private, readable and writable, which the caller unmaps. The mapping uses
/// memory only where it is written, and is not locked, even after `mlockall(MCL_FUTURE)`. Fails for
/// 0 bytes, for lack of addresses (RLIMIT_AS, RLIMIT_DATA, vm.overcommit_memory), and above
/// RLIMIT_MEMLOCK in a process that locks its future memory.
pub fn map_zeros(bytes: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // The system allocates no pages for a locked mapping (`mlockall(MCL_FUTURE)`) without access.
    // SAFETY: a new mapping at an address of the kernel's choice affects no existing memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the new mapping has no contents. If it is not locked, the call has no effect.
    let _ = unsafe { libc::munlock(start, bytes) };
    // SAFETY: the new mapping, to which there are no references.
    let result = unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) };
    if result != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: as above.
        let _ = unsafe { libc::munmap(start, bytes) };
        return Err(error);
    }
    // Huge pages would use memory where nothing was written. A failure is harmless.
    // SAFETY: the new mapping; the advice does not change its contents.
    let _ = unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn range_is_of_zeros_and_can_be_written() {
        let bytes = 1 << 30;
        let start = map_zeros(bytes).unwrap();
        for at in [0, 1 << 20, bytes - 1] {
            // SAFETY: within the range.
            let mut byte = unsafe { start.add(at) };
            // SAFETY: mapped, initialized to zero, and used by nothing else.
            let byte = unsafe { byte.as_mut() };
            assert_eq!(std::mem::replace(byte, 7), 0);
        }
        // SAFETY: the range of this test; no reference is left.
        assert_eq!(unsafe { libc::munmap(start.as_ptr().cast(), bytes) }, 0);
        assert!(map_zeros(0).is_err());
        assert!(map_zeros(1 << 50).is_err());
    }
}
