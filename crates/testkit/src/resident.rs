//! What the operating system has in its own cache.

#![allow(unsafe_code)] // A mapping is the only way to ask.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// How many pages of the file the operating system has in its cache.
///
/// # Panics
///
/// When the system does not say.
pub fn nr_resident(path: &Path) -> usize {
    let file = File::open(path).unwrap();
    let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
    if len == 0 {
        return 0;
    }
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists; nothing reads it.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    let mut pages = vec![0_u8; len.div_ceil(4096)];
    // SAFETY: the mapping just made, and a byte for each of its pages.
    let result = unsafe { libc::mincore(start, len, pages.as_mut_ptr()) };
    // SAFETY: the mapping just made, of which nothing is left.
    unsafe { libc::munmap(start, len) };
    assert_eq!(result, 0);
    pages.iter().filter(|&page| page & 1 != 0).count()
}
