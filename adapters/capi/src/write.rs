//! Writes, and what makes them durable.
//!
//! - Owns: the functions alone.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`.
//! - Promises: calls that may call a hook are counted.

use std::ffi::{c_int, c_void};

use library::File;

use crate::arguments::{answer, bytes, needed, offset as checked_offset, range, signed};
use crate::entry::call_with;
use crate::error::Result;
use crate::file::{OpenFile, pw_file};
use crate::handles::used_counted;

/// Makes a call with a file.
fn with(file: *mut pw_file, work: impl FnOnce(&File) -> Result<()>) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        work(used_counted::<OpenFile>(file as u64)?.file())
    })
}

/// Writes bytes to a file. All readers of the cache see them after the call; they are durable after ::pw_sync_data.
///
/// A write within one page is atomic: readers see all of it or nothing. A write past the end makes the file longer, and the gap reads as zeros.
///
/// `buf`: `size` bytes; may be null if `size` is 0. `offset`: where to begin.
///
/// `nr_written`: gets how many were written: all, unless something failed after the first page; then the next write reports the error.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_THROTTLED when the file has as many dirty pages as it may have, and they cannot be written
/// back; ::PW_ERROR_OUT_OF_FRAMES when every page is pinned or cannot be written back; ::PW_ERROR_DEADLOCK, and those of ::pw_read, since a write to a part of a page reads
/// the page first.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_write(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: i64,
    nr_written: *mut usize,
) -> c_int {
    // SAFETY: the same duties.
    unsafe { pw_write_lsn(file, buf, size, offset, 0, nr_written) }
}

/// As ::pw_write, with the log sequence number of the write; 0 for none. Before a page is given to the storage, the hook gets the highest number of that page
/// (::pw_open_options_set_before_write): how far the log has to be durable then.
///
/// Errors: as ::pw_write.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_write_lsn(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: i64,
    lsn: u64,
    nr_written: *mut usize,
) -> c_int {
    with(file, |file| {
        needed(nr_written)?;
        // SAFETY: the caller's duty: null, or good for reads of `size` bytes, which nobody writes to.
        let buf = unsafe { bytes(buf, size) }?;
        let nr = file.write_at_lsn(buf, checked_offset(offset)?, lsn)?;
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_written, nr) }
    })
}

/// Writes bytes at the end of a file, all of them or nothing.
///
/// `offset`: null, or gets where they begin. Where they end is a good log sequence number for a record.
///
/// Errors: as ::pw_write; ::PW_ERROR_OUT_OF_FRAMES at once when `size` is more than one call can append, a quarter of the cache; ::pw_last_error says how much.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_append(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: *mut i64,
) -> c_int {
    // SAFETY: the same duties.
    unsafe { pw_append_lsn(file, buf, size, 0, offset) }
}

/// As ::pw_append, with the log sequence number of the write, as ::pw_write_lsn.
///
/// Errors: as ::pw_append.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_append_lsn(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    lsn: u64,
    offset: *mut i64,
) -> c_int {
    with(file, |file| {
        // SAFETY: the caller's duty: null, or good for reads of `size` bytes, which nobody writes to.
        let buf = unsafe { bytes(buf, size) }?;
        let place = file.append_lsn(buf, lsn)?;
        if offset.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(offset, signed(place.start)) }
    })
}

/// Gives a file a new size, as `ftruncate`. Bytes past it are gone; new bytes are zeros. Pinned pages keep their bytes.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_IO, ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_set_size(file: *mut pw_file, size: i64) -> c_int {
    with(file, |file| Ok(file.set_size(checked_offset(size)?)?))
}

/// Gives dirty pages to the storage. They are not durable before a sync.
///
/// `offset`, `length`: of the pages with any of these bytes; a length of 0 is up to the end. `nr_pages`: null, or gets how many it were.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, ::PW_ERROR_REFUSED; the pages are still dirty then. ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_flush(
    file: *mut pw_file,
    offset: i64,
    length: i64,
    nr_pages: *mut usize,
) -> c_int {
    with(file, |file| {
        let nr = file.flush(range(offset, length)?)?;
        if nr_pages.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_pages, nr) }
    })
}

/// Makes durable everything that was written to the file before the call, and the size that reading it takes, as `fdatasync`.
///
/// After an error the state of everything written since the last successful sync is unknown. All of it is dirty again, and the next sync writes it again. Every handle is told
/// once of each failure, also of those in the background.
///
/// Errors: ::PW_ERROR_READ_ONLY; ::PW_ERROR_IO (with `ENOSPC` in ::pw_last_errno for a full disk); ::PW_ERROR_REFUSED by
/// the hook; ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
///
/// Threads: any, several with one file: they share syncs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_data(file: *mut pw_file) -> c_int {
    with(file, |file| Ok(file.sync_data()?))
}

/// As ::pw_sync_data, and makes durable what else the system keeps of the file, as `fsync`.
///
/// Errors: as ::pw_sync_data.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_all(file: *mut pw_file) -> c_int {
    with(file, |file| Ok(file.sync_all()?))
}

/// Makes durable what was written before the call to the pages that have any of these bytes.
///
/// `offset`, `length`: the bytes; a length of 0 is up to the end.
///
/// Errors: as ::pw_sync_data, and ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_range(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    with(file, |file| Ok(file.sync_range(range(offset, length)?)?))
}

/// Drops cached pages with everything written to them since their last writeback: the next read gets what the file has.
///
/// `offset`, `length`: the bytes, of which whole pages are dropped; a length of 0 is up to the end.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, and any failure to write back that the handle was not told of yet: nothing is dropped then. ::PW_ERROR_DEADLOCK,
/// ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_discard(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    with(file, |file| Ok(file.discard(range(offset, length)?)?))
}
