//! Syncs that are not taken up again.
//!
//! The standard library takes an interrupted sync up again. The second call could then succeed because
//! the first has already given up what it could not write. So here an interruption is an error, after
//! which the caller writes everything again, as after any other.

#![allow(unsafe_code)] // Two system calls.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Makes the data durable, and of the metadata what is needed to read it.
pub(super) fn data(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    result(unsafe { libc::fdatasync(file.as_raw_fd()) })
}

/// Makes the data and the metadata durable.
pub(super) fn all(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    result(unsafe { libc::fsync(file.as_raw_fd()) })
}

fn result(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
