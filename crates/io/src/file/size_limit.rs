//! Sizes that a file cannot have.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use pagewell_sync::system::Resource;

/// Returns an error if a regular file cannot grow to `size` bytes.
pub(super) fn check(mut file: &File, size: u64) -> io::Result<()> {
    // At a write past it the kernel sends SIGXFSZ.
    if let Some(limit) = Resource::FileSize.limit()
        && size > limit
    {
        return Err(too_large(format!(
            "the process may write the first {limit} bytes of a file: raise RLIMIT_FSIZE"
        )));
    }
    // Transfers are positioned, so that the position of the file has no meaning. One past the
    // maximum size of the file system's files is invalid.
    match file.seek(SeekFrom::Start(size)) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Err(too_large("the file system limits its files to less".into()))
        }
        // Other errors say nothing about the size.
        _ => Ok(()),
    }
}

/// Returns an error if a device that ends at byte `end` cannot have `size` bytes.
pub(super) fn check_device(end: u64, size: u64) -> io::Result<()> {
    match size <= end {
        true => Ok(()),
        false => Err(too_large(format!("the device has {end} bytes"))),
    }
}

fn too_large(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}
