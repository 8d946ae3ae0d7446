//! Vectored reads and writes, repeated until complete.

#![allow(unsafe_code)] // `preadv` and `pwritev`, from and into memory that other threads may read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use crate::backend::{too_large, total_len};

/// Maximum number of buffers per system call. With the smallest pages, this is 1 MiB.
const MOST_BUFFERS: usize = 256;

/// Maximum file offset of the system. No file has bytes at or beyond it.
pub const MOST_BYTES: u64 = libc::off_t::MAX as u64;

/// Reads until the buffers are full, the file ends, or `unit` does not divide the bytes read.
pub(super) fn read(
    file: &File,
    bufs: &[RacyBytes<'_>],
    pos: u64,
    unit: usize,
) -> io::Result<usize> {
    let room = MOST_BYTES.saturating_sub(pos);
    let total = total_len(bufs);
    let total = usize::try_from(room).map_or(total, |room| room.min(total));
    repeat(total, unit, |done| {
        read_some(file, bufs, done..total, pos + done as u64)
    })
}

/// After an error, a part of the bytes may be written.
pub(super) fn write(file: &File, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
    let total = total_len(bufs);
    if total == 0 {
        return Ok(());
    }
    if MOST_BYTES.saturating_sub(pos) < total as u64 {
        return Err(too_large());
    }
    let done = repeat(total, 1, |done| {
        write_some(file, bufs, done..total, pos + done as u64)
    })?;
    // No writable file is known to return 0. Retries might never end.
    match done == total {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Makes calls, each with the number of transferred bytes, until `total` bytes are transferred, a
/// call transfers none, or `unit` does not divide the number. Returns the number.
fn repeat(
    total: usize,
    unit: usize,
    some: impl Fn(usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < total && done.is_multiple_of(unit) {
        match some(done) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Describes the bytes in `range`, which is counted over all of `bufs`, or a prefix of them. The
/// system may write to the memory only if the buffers are `RacyBytes`. Returns the number, too.
fn vectors<'a>(
    bufs: &[impl Into<RacySource<'a>> + Copy],
    range: Range<usize>,
) -> ([libc::iovec; MOST_BUFFERS], libc::c_int) {
    let mut list = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MOST_BUFFERS];
    let mut nr = 0;
    let mut skip = range.start;
    let mut left = range.len();
    for buf in bufs {
        let buf: RacySource<'_> = (*buf).into();
        if skip >= buf.len() {
            skip -= buf.len();
            continue;
        }
        if nr == MOST_BUFFERS || left == 0 {
            break;
        }
        let rest = buf.slice(skip, left.min(buf.len() - skip));
        left -= rest.len();
        skip = 0;
        list[nr] = libc::iovec {
            iov_base: rest.as_ptr().cast_mut().cast(),
            iov_len: rest.len(),
        };
        nr += 1;
    }
    (list, nr as libc::c_int)
}

/// Reads into the bytes of `bufs` in `range`, or a prefix of them, by one system call.
fn read_some(
    file: &File,
    bufs: &[RacyBytes<'_>],
    range: Range<usize>,
    pos: u64,
) -> io::Result<usize> {
    let pos = offset(pos)?;
    if let [buf] = bufs {
        let buf = buf.slice(range.start, range.len());
        // SAFETY: the memory is valid for writes during this call. For races, see below.
        let n = unsafe { libc::pread(file.as_raw_fd(), buf.as_ptr().cast(), buf.len(), pos) };
        return nr_bytes(n);
    }
    let (list, nr) = vectors(bufs, range);
    // SAFETY: the first `nr` vectors are ranges of `RacyBytes`, valid for writes during this call.
    // A write by the kernel is not an access in the memory model, so readers do not race with it.
    let n = unsafe { libc::preadv(file.as_raw_fd(), list.as_ptr(), nr, pos) };
    nr_bytes(n)
}

/// Writes the bytes of `bufs` in `range`, or a prefix of them, by one system call.
fn write_some(
    file: &File,
    bufs: &[RacySource<'_>],
    range: Range<usize>,
    pos: u64,
) -> io::Result<usize> {
    let pos = offset(pos)?;
    if let [buf] = bufs {
        let buf = buf.slice(range.start, range.len());
        // SAFETY: the memory of the `RacySource` is valid for reads during this call.
        let n = unsafe { libc::pwrite(file.as_raw_fd(), buf.as_ptr().cast(), buf.len(), pos) };
        return nr_bytes(n);
    }
    let (list, nr) = vectors(bufs, range);
    // SAFETY: the first `nr` vectors are ranges of `RacySource`, valid for reads during this call.
    let n = unsafe { libc::pwritev(file.as_raw_fd(), list.as_ptr(), nr, pos) };
    nr_bytes(n)
}

fn offset(pos: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(pos).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn nr_bytes(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
