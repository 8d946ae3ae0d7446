//! Checks and flags of descriptors that the program has opened.

#![allow(unsafe_code)] // Three system calls.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::open::again;

pub(super) fn check_readable(file: &File) -> io::Result<()> {
    let flags = flags(file)?;
    if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(denied("the descriptor is not open for reading"));
    }
    Ok(())
}

/// Checks that flags and seals permit reads, writes at any position, and growth.
pub(super) fn check_writable(file: &File) -> io::Result<()> {
    let flags = flags(file)?;
    if flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE != libc::O_RDWR {
        return Err(denied("the descriptor is not open for reading and writing"));
    }
    if flags & libc::O_APPEND != 0 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the descriptor is open for appending, so the system ignores the position of a write",
        ));
    }
    // The command fails on file systems without seals.
    // SAFETY: the descriptor is open, and the command takes no memory.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let refused = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW;
    if seals != -1 && seals & refused != 0 {
        return Err(denied("the file is sealed against writes or growth"));
    }
    Ok(())
}

fn flags(file: &File) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open, and the command takes no memory.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })
}

/// Clears `O_DIRECT`, and `O_NONBLOCK`, which FUSE passes to the server with every read.
pub(super) fn clear_flags(file: &File) -> io::Result<()> {
    let flags = flags(file)?;
    let cleared = flags & !(libc::O_DIRECT | libc::O_NONBLOCK);
    if cleared == flags {
        return Ok(());
    }
    // SAFETY: the descriptor is open, and the argument of the command is a number.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, cleared) }).map(drop)
}

fn denied(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}
