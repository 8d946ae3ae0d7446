//! Opening a file by path; checks and flags of descriptors that the program has opened.

#![allow(unsafe_code)] // System calls, some with flags that the standard library does not have.

use std::error::Error;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens the file at `path` with these flags of `open(2)`. A new file gets the permissions `mode`,
/// less the umask. `O_NONBLOCK` prevents the open of a pipe from blocking, and is cleared
/// afterwards, since FUSE passes it on with every read. If another process has a lease of the file,
/// an open with the flag may fail. The repetition without it may block (`fcntl(2)`, "Leases").
pub(super) fn at_path(path: &Path, flags: libc::c_int, mode: libc::c_uint) -> io::Result<File> {
    let name = c_string(path.as_os_str().as_bytes())?;
    in_directory(None, &name, path, flags, mode)
}

/// Like [`at_path`], for a `path` that resolves to `name` relative to `directory`.
pub(super) fn in_directory(
    directory: Option<BorrowedFd<'_>>,
    name: &CStr,
    path: &Path,
    flags: libc::c_int,
    mode: libc::c_uint,
) -> io::Result<File> {
    let file = match open(directory, name, flags | libc::O_NONBLOCK, mode) {
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && path.is_file() => {
            return open(directory, name, flags, mode);
        }
        result => result?,
    };
    // No other flag that `F_SETFL` could clear is set yet.
    // SAFETY: the descriptor is open, and the command takes no memory.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) })?;
    Ok(file)
}

/// Opens `name` relative to `directory`, or to the current directory.
pub(super) fn open(
    directory: Option<BorrowedFd<'_>>,
    name: &CStr,
    flags: libc::c_int,
    mode: libc::c_uint,
) -> io::Result<File> {
    let directory = directory.map_or(libc::AT_FDCWD, |directory| directory.as_raw_fd());
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: the directory, if any, is open, and the name is NUL-terminated.
    let descriptor = again(|| unsafe { libc::openat(directory, name.as_ptr(), flags, mode) })?;
    // SAFETY: the descriptor was just opened, and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Fails with [`io::ErrorKind::InvalidFilename`] if the path contains a NUL byte.
pub(super) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidFilename,
            "the path contains a NUL byte",
        )
    })
}

/// Repeats a system call while it fails with `EINTR`.
pub(super) fn again(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        let answer = call();
        if answer != -1 {
            return Ok(answer);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Error that names the failed step of opening a file.
#[derive(Debug)]
pub(super) struct FailedStep {
    step: &'static str,
    source: io::Error,
}

impl FailedStep {
    pub(super) fn error(kind: io::ErrorKind, step: &'static str, source: io::Error) -> io::Error {
        io::Error::new(kind, Self { step, source })
    }
}

impl fmt::Display for FailedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.step)
    }
}

impl Error for FailedStep {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

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

pub(super) fn flags(file: &File) -> io::Result<libc::c_int> {
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
