//! Syncs that are not repeated after an interruption.
//!
//! The standard library repeats an interrupted sync. The second call could then succeed although
//! the first has dropped pages that it could not write. Here an interruption is an error.

#![allow(unsafe_code)] // Three system calls.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Starts writeback of `range`. Returns `false` if `sync_file_range` is unavailable, which no sync
/// needs. Reports no earlier writeback error: [`await_begun`] or the next sync does. After an error
/// of the call itself, the system may have dropped pages.
pub(super) fn begin(file: &File, range: &Range<u64>) -> io::Result<bool> {
    match by_range(file, range, libc::SYNC_FILE_RANGE_WRITE) {
        Err(error) if is_no_such_call(&error) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Waits until the device has received the started writes in `range`, which need not be durable
/// then. Returns a writeback error of any part of the file that was not reported before, with any
/// error number. The next sync does not report that error again.
pub(super) fn await_begun(file: &File, range: &Range<u64>) -> io::Result<()> {
    by_range(file, range, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

/// For the call in [`begin`] only: [`await_begun`] may report device errors by these numbers.
fn is_no_such_call(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP)
    )
}

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

/// Limit of bytes in flight. A device of 1 GB/s writes them in about 4 ms.
const MOST_BYTES: u64 = 4 << 20;

/// Limit of ranges in flight, enough for a device to reorder and overlap writes.
const MOST_RANGES: usize = 64;

/// Ranges whose writeback may be in flight, in the order in which they were started.
///
/// A sync would wait for any number of ranges in one call. So a thread that starts a range, and
/// thereby exceeds a limit, waits for the oldest ranges.
#[derive(Debug, Default)]
pub(super) struct Begun {
    ranges: VecDeque<Range<u64>>,
    nr_bytes: u128,
}

impl Begun {
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.nr_bytes += u128::from(range.end.saturating_sub(range.start));
        self.ranges.push_back(range);
    }

    /// If a limit is exceeded (not by a single range), removes the oldest, which the caller awaits.
    pub(super) fn take_surplus(&mut self) -> Option<Range<u64>> {
        let nr = self.ranges.len();
        if nr <= MOST_RANGES && (nr <= 1 || self.nr_bytes <= u128::from(MOST_BYTES)) {
            return None;
        }
        let first = self.ranges.pop_front()?;
        self.nr_bytes -= u128::from(first.end.saturating_sub(first.start));
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_waited_for_when_there_are_many_or_they_are_large() {
        let mut begun = Begun::default();
        for nr in 0..64 {
            begun.add(nr..nr + 1);
            assert_eq!(begun.take_surplus(), None);
        }
        begun.add(64..65);
        assert_eq!(begun.take_surplus(), Some(0..1));
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..MOST_BYTES);
        for nr in 1..65 {
            assert_eq!(begun.take_surplus(), Some(nr..nr + 1));
        }
        assert_eq!(begun.take_surplus(), None);
        let mut begun = Begun::default();
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), None);
        begun.add(0..u64::MAX);
        assert_eq!(begun.take_surplus(), Some(0..u64::MAX));
    }

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
