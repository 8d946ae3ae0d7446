//! The lock that keeps a second writer away.
//!
//! The lock belongs to the open file description, not to the process. A lock of the process is lost when the
//! process closes the same file anywhere, and does not keep the process's own second writer away.

#![allow(unsafe_code)] // One system call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::open::again;
use super::step::FailedStep;

/// Locks the whole of `file`, however long it will be.
///
/// # Errors
///
/// [`io::ErrorKind::ResourceBusy`] if another open file description holds the lock; [`io::ErrorKind::Unsupported`] if the file system
/// does not support such locks.
pub(super) fn take(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK).map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the file is open for writing elsewhere",
        ),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOTTY) => FailedStep::error(
            io::ErrorKind::Unsupported,
            "cannot lock the file: its file system does not support locks of open file descriptions (F_OFD_SETLK)",
            error,
        ),
        _ => FailedStep::error(error.kind(), "cannot lock the file", error),
    })
}

/// Gives the lock back, for all who share the open file description.
pub(super) fn release(file: &File) {
    // What could fail is to divide a lock in two, and this is a whole one; and should it fail, then
    // the lock ends when the last who shares the description closes it.
    let _ = set(file, libc::F_UNLCK);
}

fn set(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = whole(kind);
    let command = libc::F_OFD_SETLK;
    // SAFETY: the descriptor is open, and the command reads a lock, which this is.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) }).map(drop)
}

/// Describes a lock of a whole file.
pub(super) fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        // From the first byte on, and with no last one.
        l_start: 0,
        l_len: 0,
        // The system wants it so for locks of open file descriptions.
        l_pid: 0,
    }
}
