//! Syncs that are not repeated after an interruption.
//!
//! The standard library repeats an interrupted sync. The second call could then succeed although
//! the first has dropped pages that it could not write. Here an interruption is an error.

#![allow(unsafe_code)] // Three system calls.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Starts writeback of `range`. Returns `false` if `sync_file_range` is unavailable, which no sync
/// needs. Reports no earlier writeback error: [`await_begun`] or the next sync does. After an error
/// of the call itself, the system may have dropped pages.
pub(super) fn begin(file: &File, range: &Range<u64>) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    return match by_range(file, range, libc::SYNC_FILE_RANGE_WRITE) {
        Err(error) if is_no_such_call(&error) => Ok(false),
        result => result.map(|()| true),
    };
    // Writeback starts at the sync.
    #[cfg(not(target_os = "linux"))]
    Ok(false)
}

/// Waits until the device has received the started writes in `range`, which need not be durable
/// then. Returns a writeback error of any part of the file that was not reported before, with any
/// error number. The next sync does not report that error again.
pub(super) fn await_begun(file: &File, range: &Range<u64>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return by_range(file, range, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
    #[cfg(not(target_os = "linux"))]
    Ok(())
}

/// For the call in [`begin`] only: [`await_begun`] may report device errors by these numbers.
#[cfg(target_os = "linux")]
fn is_no_such_call(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP)
    )
}

#[cfg(target_os = "linux")]
fn by_range(file: &File, range: &Range<u64>, how: libc::c_uint) -> io::Result<()> {
    let (Ok(start), Ok(len)) = (
        libc::off64_t::try_from(range.start),
        libc::off64_t::try_from(range.end.saturating_sub(range.start)),
    ) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // SAFETY: the descriptor is open.
    result(unsafe { libc::sync_file_range(file.as_raw_fd(), start, len, how) })
}

pub(super) fn data(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    result(unsafe { libc::fdatasync(file.as_raw_fd()) })
}

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The wait consumes the error, which must not be taken for an unavailable call.
    #[test]
    fn a_wait_passes_every_error_on_and_a_beginning_knows_that_there_is_no_call() {
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(!begin(&pipe, &(0..4096)).unwrap());
        let error = await_begun(&pipe, &(0..4096)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    }

    #[test]
    fn ranges_that_no_file_has_are_not_begun() {
        let file = File::open("/dev/null").unwrap();
        assert!(!begin(&file, &(0..u64::MAX)).unwrap());
    }
}
