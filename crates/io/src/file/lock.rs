//! Write lock that excludes a second writer, and restriction of a file to one process.
//!
//! The lock belongs to the open file description. A lock of the process (`F_SETLK`) would end when
//! the process closes any descriptor of the file, and would not exclude its other writers.

#![allow(unsafe_code)] // One system call.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::{process, thread};

use pagewell_sync::process::ProcessId;

use super::open::{FailedStep, again};
use super::options::FileLock;

/// Locks the whole of `file`, including bytes appended later. Fails with
/// [`io::ErrorKind::ResourceBusy`] if a process or another open file description has a lock, and
/// with [`io::ErrorKind::Unsupported`] if the file system or a sandbox does not permit such locks.
pub(super) fn take(file: &File) -> io::Result<()> {
    set(file, libc::F_WRLCK).map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => taken(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOTTY | libc::EPERM) => {
            FailedStep::error(
                io::ErrorKind::Unsupported,
                "cannot lock the file: its file system does not support locks of open file \
                 descriptions (F_OFD_SETLK), or a sandbox refuses them",
                error,
            )
        }
        _ => FailedStep::error(error.kind(), "cannot lock the file", error),
    })
}

pub(super) fn taken() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "the file is open for writing elsewhere",
    )
}

/// Time for which an open waits for a lock ([`FileLock::Within`]).
#[derive(Debug)]
pub struct LockWait {
    begin: Instant,
    /// Zero if the open does not wait.
    limit: Duration,
    pause: Duration,
}

impl LockWait {
    const MIN_PAUSE: Duration = Duration::from_millis(1);
    const MAX_PAUSE: Duration = Duration::from_millis(16);

    /// Begins a wait, as `lock` requires it.
    pub fn new(lock: FileLock) -> Self {
        Self {
            begin: Instant::now(),
            limit: match lock {
                FileLock::Within(limit) => limit,
                FileLock::Exclusive | FileLock::None => Duration::ZERO,
            },
            pause: Self::MIN_PAUSE,
        }
    }

    /// Sleeps before the next attempt. Returns `false` if the time is over. The kernel's own wait
    /// (`F_OFD_SETLKW`) has no time limit, and a signal to end it needs a handler.
    pub fn sleep(&mut self) -> bool {
        let left = self.limit.saturating_sub(self.begin.elapsed());
        if left.is_zero() {
            return false;
        }
        thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(Self::MAX_PAUSE);
        true
    }

    /// Returns a text about the wait for an error message, or `None` if the open does not wait.
    pub fn describe(&self) -> Option<String> {
        (!self.limit.is_zero()).then(|| format!("waited {:?} for its lock", self.limit))
    }
}

pub(super) fn release(file: &File) {
    // An unlock of the whole file splits no lock, and so should not fail. If the system refuses it,
    // the lock ends with the last descriptor.
    let _ = set(file, libc::F_UNLCK);
}

fn set(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = whole(kind);
    let command = libc::F_OFD_SETLK;
    // SAFETY: the descriptor is open, and the command reads a valid `flock`.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) }).map(drop)
}

pub(super) fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        // Required for locks of open file descriptions.
        l_pid: 0,
    }
}

/// Returns [`Forked`], as an error, in every process but `opener`. Caches in it and in a forked
/// child would overwrite each other's pages, since the two share open files but not memory.
pub(crate) fn check_process(opener: ProcessId) -> io::Result<()> {
    if opener.is_current() {
        return Ok(());
    }
    Err(io::Error::other(Forked {
        opened_by: opener.id(),
        used_by: process::id(),
    }))
}

/// Error of a process that used a file opened before the `fork` that created the process. The
/// call's [`io::Error`] wraps it (see [`io::Error::get_ref`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forked {
    /// Id of the process that opened the file.
    pub opened_by: u32,
    /// Id of the process that used the file.
    pub used_by: u32,
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot use the file in process {} after a fork: process {} opened it",
            self.used_by, self.opened_by
        )
    }
}

impl Error for Forked {}
