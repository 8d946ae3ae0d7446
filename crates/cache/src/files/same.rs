//! Identity checks of files with the same device and inode number ([`pagewell_io::identity`]):
//! before a new handle joins an open mapping, and when a path is compared with an open file.

use std::os::fd::BorrowedFd;

use pagewell_io::identity::{AmbiguousFile, Comparison, compare, is_locked, is_locked_elsewhere};

use crate::base::error::{Error, Op};
use crate::mapping::record::Mapping;

/// Whether `new`, possibly opened with `O_PATH`, is proven to be the open file. If the backend of
/// `open` has no descriptor, its `id` is trusted. Fails with
/// [`AmbiguousFile`](crate::ErrorKind::AmbiguousFile) for another file, and as [`compare`] does.
pub(crate) fn is_proven(open: &Mapping, new: BorrowedFd<'_>) -> Result<bool, Error> {
    let Some(descriptor) = open.target.descriptor() else {
        return Ok(true);
    };
    match compare(descriptor, new).map_err(|error| Error::from_io(Op::Open, error))? {
        Comparison::Different => Err(ambiguous()),
        Comparison::Same => Ok(true),
        Comparison::Unproven => Ok(false),
    }
}

/// Checks that no evidence distinguishes `new` from the open file. Assumes that a lock of `new`, if
/// it has one, is that of the open file. Fails as [`is_proven`] does.
pub(crate) fn check(open: &Mapping, new: BorrowedFd<'_>) -> Result<(), Error> {
    // `new` may be a duplicate of the open file's descriptor, and share its lock.
    check_by(open, new, is_locked)
}

/// Checks as [`check`] does, if the open file description of `new` has a lock of its own.
pub(crate) fn check_locked(open: &Mapping, new: BorrowedFd<'_>) -> Result<(), Error> {
    check_by(open, new, is_locked_elsewhere)
}

fn check_by(
    open: &Mapping,
    new: BorrowedFd<'_>,
    is_lock_visible: fn(BorrowedFd<'_>) -> Option<bool>,
) -> Result<(), Error> {
    if is_proven(open, new)? {
        return Ok(());
    }
    // The open file's lock is visible through every other open file description of the file.
    if open.target.is_locked() && is_lock_visible(new) == Some(false) {
        return Err(ambiguous());
    }
    Ok(())
}

fn ambiguous() -> Error {
    Error::from_io(Op::Open, AmbiguousFile::SameNumber.into())
}
