//! Checks of a new size against the limits of the process, the file system and the device.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use pagewell_sync::system::Resource;

pub(super) fn check(mut file: &File, size: u64) -> io::Result<()> {
    // The kernel sends SIGXFSZ at a write past this limit.
    if let Some(limit) = Resource::FileSize.limit()
        && size > limit
    {
        return Err(too_large(format!(
            "the process may write the first {limit} bytes of a file: raise RLIMIT_FSIZE"
        )));
    }
    // The kernel rejects a seek past the file system's limit. Transfers do not use this position.
    match file.seek(SeekFrom::Start(size)) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Err(too_large("the file system limits its files to less".into()))
        }
        // Other errors say nothing about the size.
        _ => Ok(()),
    }
}

pub(super) fn check_device(end: u64, size: u64) -> io::Result<()> {
    match size <= end {
        true => Ok(()),
        false => Err(too_large(format!("the device has {end} bytes"))),
    }
}

fn too_large(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}
