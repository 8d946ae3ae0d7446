//! File identity beyond device and inode number.
//!
//! Some file systems give two files the same device and inode number: they merge file systems
//! (virtiofs, 9p, mergerfs), truncate numbers to 32 bits, or reuse the number of a deleted file. So
//! that such files share no pages, a new file is compared with the open file of the same numbers:
//!
//! | evidence | if it differs | if it is equal |
//! |---|---|---|
//! | file handle (`name_to_handle_at(2)`) | different files | same file |
//! | comparison handle (`AT_HANDLE_FID`) | different files | no proof: may be the inode number |
//! | birth time | different files | no proof: clones share it |
//! | size, modification time | different files, unless concurrently changed | no proof |
//! | lock of the open file | not visible via the new file: different files | visible: no proof |
//!
//! The mount ID is not evidence: bind mounts expose one file through several mounts.

#![allow(unsafe_code)] // Three system calls.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::open::{self, again, c_string};
use crate::backend::FileId;

/// Result of [`compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The files are different.
    Different,
    /// The files are the same: the descriptors, or the file handles, are equal.
    Same,
    /// No evidence proves that the files are different, or that they are the same.
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
                "another open file has the same device and inode number (inode number collision of \
                 the file system)"
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

const MAX_COMPARISONS: usize = 100;

/// Number of successive comparisons that prove a difference, if in each the open file's attributes
/// are unchanged and differ from the new file's.
const MIN_DIFFERENCES: usize = 3;

/// Interval between comparisons, longer than a tick of modification times (at most 10 ms).
const TICK: Duration = Duration::from_millis(11);

/// Compares `new` with `open`, which have the same device and inode number and may be opened with
/// `O_PATH`. Fails with the errors of `statx(2)`.
pub fn compare(open: BorrowedFd<'_>, new: BorrowedFd<'_>) -> io::Result<Comparison> {
    if open.as_raw_fd() == new.as_raw_fd() {
        return Ok(Comparison::Same);
    }
    if let (Some(of_open), Some(of_new)) = (Handle::of(open), Handle::of(new)) {
        let is_for_comparison = of_open.is_for_comparison || of_new.is_for_comparison;
        match (of_open == of_new, is_for_comparison) {
            (false, _) => return Ok(Comparison::Different),
            (true, false) => return Ok(Comparison::Same),
            (true, true) => {}
        }
    }
    let mut nr_differences = 0;
    let mut before = Attributes::at(open)?;
    for _ in 0..MAX_COMPARISONS {
        let other = Attributes::at(new)?;
        let after = Attributes::at(open)?;
        // Compare with both: a copy-up of overlayfs between two queries changes a birth time.
        if before.have_different_births(&other) && after.have_different_births(&other) {
            return Ok(Comparison::Different);
        }
        if other.is_alike(&before) || other.is_alike(&after) {
            return Ok(Comparison::Unproven);
        }
        nr_differences = if after == before {
            nr_differences + 1
        } else {
            0
        };
        if nr_differences == MIN_DIFFERENCES {
            return Ok(Comparison::Different);
        }
        thread::sleep(TICK);
        before = Attributes::at(open)?;
    }
    Ok(Comparison::Unproven)
}

/// Returns `true` if a process or another open file description has a lock on the file of `new`,
/// and `None` if the query fails. The lock of a [`FileBackend`](crate::FileBackend) is visible
/// through every other open file description of its file, and through none of another file.
pub fn is_locked_elsewhere(new: BorrowedFd<'_>) -> Option<bool> {
    query_lock(new, libc::F_OFD_GETLK)
}

/// Returns `true` if another process or any open file description, including that of `new`, has a
/// lock on the file of `new`, and `None` if the query fails.
pub fn is_locked(new: BorrowedFd<'_>) -> Option<bool> {
    query_lock(new, libc::F_GETLK)
}

fn query_lock(file: BorrowedFd<'_>, command: libc::c_int) -> Option<bool> {
    let mut lock = super::lock::whole(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the command reads and writes a valid `flock`.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) }).ok()?;
    Some(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

/// Resolves `path` to a descriptor for comparisons only (`O_PATH`): needs no read permission,
/// breaks no lease, and its close releases no POSIX locks. Fails with the errors of `open(2)`.
pub fn named(path: &Path) -> io::Result<File> {
    open::open(
        None,
        &c_string(path.as_os_str().as_bytes())?,
        libc::O_PATH,
        0,
    )
}

/// Returns the device and inode number of an open file. Fails with the errors of `fstat(2)`.
pub fn id_of(file: BorrowedFd<'_>) -> io::Result<FileId> {
    stat(file).map(|stat| id_from(&stat))
}

/// Like [`id_of`], for the file at `path`, following links. Fails with the errors of `stat(2)`.
pub fn id_at(path: &Path) -> io::Result<FileId> {
    let metadata = fs::metadata(path)?;
    Ok(FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

pub(super) fn id_from(stat: &libc::stat) -> FileId {
    FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}

pub(super) fn stat(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    let mut answer = MaybeUninit::uninit();
    // SAFETY: the descriptor is open, and `answer` has the size of the result.
    again(|| unsafe { libc::fstat(file.as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so the answer is initialized.
    Ok(unsafe { answer.assume_init() })
}

/// Seconds and nanoseconds.
type Time = (i64, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    size: u64,
    modified: Time,
    /// `None` if the file system does not record it, or `statx` is unavailable.
    born: Option<Time>,
}

impl Attributes {
    fn at(file: BorrowedFd<'_>) -> io::Result<Self> {
        let mut answer = MaybeUninit::<libc::statx>::zeroed();
        let mask = libc::STATX_SIZE | libc::STATX_MTIME | libc::STATX_BTIME;
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open, the name ends with NUL, and `answer` has the right size.
        let result = again(|| unsafe {
            let to = answer.as_mut_ptr();
            libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, mask, to)
        });
        match result {
            Ok(_) => {}
            // A sandbox may forbid the call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                return Self::without_birth(file);
            }
            Err(error) => return Err(error),
        }
        // SAFETY: the call has succeeded, so the answer is initialized.
        let answer = unsafe { answer.assume_init() };
        let time = |time: libc::statx_timestamp| (time.tv_sec, time.tv_nsec);
        Ok(Self {
            size: answer.stx_size,
            modified: time(answer.stx_mtime),
            born: (answer.stx_mask & libc::STATX_BTIME != 0).then(|| time(answer.stx_btime)),
        })
    }

    fn without_birth(file: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = stat(file)?;
        Ok(Self {
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            born: None,
        })
    }

    fn is_alike(&self, other: &Self) -> bool {
        (self.size, self.modified) == (other.size, other.modified)
    }

    fn have_different_births(&self, other: &Self) -> bool {
        matches!((self.born, other.born), (Some(one), Some(two)) if one != two)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle {
    raw: RawHandle,
    /// Requested with `AT_HANDLE_FID`, and so only for comparisons.
    is_for_comparison: bool,
}

/// The kernel's `struct file_handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct RawHandle {
    nr_bytes: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; Self::MAX_BYTES],
}

impl RawHandle {
    /// The kernel's `MAX_HANDLE_SZ`.
    const MAX_BYTES: usize = 128;
}

impl Handle {
    /// `AT_HANDLE_FID` (Linux 6.5).
    const FID: libc::c_int = 0x200;

    fn of(file: BorrowedFd<'_>) -> Option<Self> {
        let request = |flags: libc::c_int| {
            let mut raw = RawHandle {
                nr_bytes: RawHandle::MAX_BYTES as libc::c_uint,
                kind: 0,
                bytes: [0; RawHandle::MAX_BYTES],
            };
            let mut mount: libc::c_int = 0;
            let fd = file.as_raw_fd();
            let to = (&raw mut raw).cast();
            // SAFETY: the descriptor is open, the name ends with NUL, the handle has the kernel's
            // layout and the stated capacity, and `mount` has the size of a mount ID.
            again(|| unsafe {
                let flags = flags | libc::AT_EMPTY_PATH;
                libc::name_to_handle_at(fd, c"".as_ptr(), to, &raw mut mount, flags)
            })
            .ok()?;
            Some(Self {
                raw,
                is_for_comparison: flags == Self::FID,
            })
        };
        request(0).or_else(|| request(Self::FID))
    }
}
