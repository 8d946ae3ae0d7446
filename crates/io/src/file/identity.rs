//! File identity beyond device and inode number.
//!
//! Some file systems give two files the same device and inode number: those that merge several file systems into one (virtiofs, 9p,
//! mergerfs), that truncate numbers to 32 bits, or that reuse the number of a deleted file. If two such files shared cached pages, writes
//! to one would end in the other. A file that is about to join an open one with its number is therefore compared with it:
//!
//! | evidence | if it differs | if it is equal |
//! |---|---|---|
//! | file handle (`name_to_handle_at(2)`) | different files | same file |
//! | birth time | different files | no proof: clones share it |
//! | size, modification time | different files, unless the open file changed between two calls | no proof |
//! | lock of the open file, queried through the other descriptor | different files | no proof: another process may hold it |
//!
//! The mount ID is not evidence: bind mounts expose one file through several mounts.

#![allow(unsafe_code)] // Three system calls.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::open::{self, again, c_string};
use crate::backend::FileId;

/// Result of [`compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The files are different.
    Different,
    /// The files are the same: their file handles are equal.
    Same,
    /// No evidence differs, and none proves that the files are the same.
    Unproven,
}

/// Error of a file whose device and inode number do not identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmbiguousFile {
    /// Another open file has the same device and inode number.
    SameNumber,
    /// The inode number of the file changes while it is open.
    NumberChanges,
}

impl fmt::Display for AmbiguousFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameNumber => {
                "another open file has the same device and inode number (inode number collision of the file system)"
            }
            Self::NumberChanges => "the file system changes the inode number of an open file",
        })
    }
}

impl Error for AmbiguousFile {}

impl From<AmbiguousFile> for io::Error {
    fn from(error: AmbiguousFile) -> Self {
        Self::other(error)
    }
}

/// Maximum number of comparisons of a file that changes concurrently.
const MAX_COMPARISONS: usize = 100;

/// Compares `new` with `open`, which have the same device and inode number. Descriptors opened with `O_PATH` are allowed.
///
/// # Errors
///
/// Errors of `statx(2)`.
pub fn compare(open: BorrowedFd<'_>, new: BorrowedFd<'_>) -> io::Result<Comparison> {
    let (of_open, of_new) = (Handle::of(open), Handle::of(new));
    let has_handles = of_open.is_some() && of_new.is_some();
    if has_handles && of_open != of_new {
        return Ok(Comparison::Different);
    }
    let alike = match has_handles {
        true => Comparison::Same,
        false => Comparison::Unproven,
    };
    let mut before = Attributes::at(open)?;
    for _ in 0..MAX_COMPARISONS {
        let other = Attributes::at(new)?;
        if other == before {
            return Ok(alike);
        }
        if other.born != before.born {
            return Ok(Comparison::Different);
        }
        let after = Attributes::at(open)?;
        if after == before {
            return Ok(Comparison::Different);
        }
        if other == after {
            return Ok(alike);
        }
        before = after;
    }
    Ok(alike)
}

/// Whether another open file description holds a lock on the file `new`. None if the query fails.
///
/// The lock of a writable [`FileBackend`](crate::FileBackend) is visible through every descriptor of its file, and through no descriptor
/// of another file.
pub fn is_locked_elsewhere(new: BorrowedFd<'_>) -> Option<bool> {
    let mut lock = super::lock::whole(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the command reads and writes a lock, which this is.
    again(|| unsafe { libc::fcntl(new.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) }).ok()?;
    Some(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

/// Resolves `path` to a descriptor for comparisons only (`O_PATH`): requires no read permission, breaks no lease, and does not release
/// POSIX locks when it is closed.
///
/// # Errors
///
/// Errors of `open(2)`.
pub fn named(path: &Path) -> io::Result<File> {
    open::open(
        None,
        &c_string(path.as_os_str().as_bytes())?,
        libc::O_PATH,
        0,
    )
}

/// Device and inode number of an open file.
///
/// # Errors
///
/// Errors of `fstat(2)`.
pub fn id_of(file: BorrowedFd<'_>) -> io::Result<FileId> {
    id_and_mode(file).map(|(id, _)| id)
}

/// As [`id_of`], and the type and permissions of the file.
pub(super) fn id_and_mode(file: BorrowedFd<'_>) -> io::Result<(FileId, libc::mode_t)> {
    let mut answer = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open, and the answer has room.
    again(|| unsafe { libc::fstat(file.as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so the answer is there.
    let answer = unsafe { answer.assume_init() };
    let id = FileId {
        device: answer.st_dev,
        inode: answer.st_ino,
    };
    Ok((id, answer.st_mode))
}

/// Timestamp: seconds and nanoseconds.
type Time = (i64, u32);

/// Attributes of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    size: u64,
    modified: Time,
    /// None if the file system does not record it.
    born: Option<Time>,
}

impl Attributes {
    fn at(file: BorrowedFd<'_>) -> io::Result<Self> {
        let mut answer = MaybeUninit::<libc::statx>::zeroed();
        let mask = libc::STATX_SIZE | libc::STATX_MTIME | libc::STATX_BTIME;
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open, the name ends with a zero, and the answer has room.
        again(|| unsafe {
            libc::statx(
                fd,
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                mask,
                answer.as_mut_ptr(),
            )
        })?;
        // SAFETY: the call has succeeded, so the answer is there.
        let answer = unsafe { answer.assume_init() };
        let time = |time: libc::statx_timestamp| (time.tv_sec, time.tv_nsec);
        Ok(Self {
            size: answer.stx_size,
            modified: time(answer.stx_mtime),
            born: (answer.stx_mask & libc::STATX_BTIME != 0).then(|| time(answer.stx_btime)),
        })
    }
}

/// File handle: identifier of a file within its file system, independent of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Handle {
    nr_bytes: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; Self::MAX_BYTES],
}

impl Handle {
    /// `MAX_HANDLE_SZ` of the kernel.
    const MAX_BYTES: usize = 128;

    /// `AT_HANDLE_FID` (Linux 6.5): a handle for comparisons only, which more file systems provide.
    const FID: libc::c_int = 0x200;

    /// Handle of `file`, if its file system provides one.
    fn of(file: BorrowedFd<'_>) -> Option<Self> {
        let ask = |flags: libc::c_int| {
            let mut handle = Self {
                nr_bytes: Self::MAX_BYTES as libc::c_uint,
                kind: 0,
                bytes: [0; Self::MAX_BYTES],
            };
            let mut mount: libc::c_int = 0;
            let fd = file.as_raw_fd();
            let to = (&raw mut handle).cast();
            let flags = flags | libc::AT_EMPTY_PATH;
            // SAFETY: the descriptor is open, and the name is terminated. The handle has the kernel's layout and the capacity that it
            // states, and the mount ID has room.
            again(|| unsafe {
                libc::name_to_handle_at(fd, c"".as_ptr(), to, &raw mut mount, flags)
            })
            .ok()?;
            Some(handle)
        };
        ask(0).or_else(|| ask(Self::FID))
    }
}
