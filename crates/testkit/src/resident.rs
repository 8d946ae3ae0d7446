//! What the operating system has in its own cache.

#![allow(unsafe_code)] // A mapping is the only way to ask.

use std::ffi::CString;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether the file is on a file system, ext4, that keeps no page of a direct transfer in the operating system's cache.
/// Others may.
///
/// # Panics
///
/// If the system does not name the file system.
#[must_use]
pub fn holds_no_direct_pages(path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a terminated string, and room for the answer; both outlive the call.
    let result = unsafe { libc::statfs(path.as_ptr(), answer.as_mut_ptr()) };
    assert_eq!(result, 0);
    // SAFETY: the call succeeded, so the system has written all of it.
    let answer = unsafe { answer.assume_init() };
    answer.f_type == libc::EXT4_SUPER_MAGIC
}

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
