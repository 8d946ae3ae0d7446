//! Writes and syncs.
//!
//! - Owns: only the functions.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`.
//! - Promises: calls that may call the writeback callback are counted (see `handles`).

use std::ffi::{c_int, c_void};

use library::File;

use crate::arguments::{answer, bytes, needed, offset as checked_offset, range, signed};
use crate::entry::call_with;
use crate::error::Result;
use crate::file::{OpenFile, pw_file};
use crate::handles::used_counted;

fn with(file: *mut pw_file, work: impl FnOnce(&File) -> Result<()>) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        work(used_counted::<OpenFile>(file as u64)?.file())
    })
}

/// Writes bytes to a file. All readers of the cache see them after the call; they are durable after
/// ::pw_sync_data. A write within one page is atomic: readers see all of it or none of it. A write
/// past the end extends the file, and the gap reads as zeros.
///
/// `buf`: `size` bytes; may be null if `size` is 0. `offset`: the position in the file.
///
/// `nr_written`: receives the number of bytes written: `size`, or fewer if a page after the first
/// could not be written. A write that begins at this page then reports the error.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_THROTTLED,
/// ::PW_ERROR_OUT_OF_FRAMES; ::PW_ERROR_REFUSED if a page codec refuses the last page of a file
/// that is extended; ::PW_ERROR_DEADLOCK, and those of ::pw_read, since a write to a part of a page
/// reads the page first.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_write(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: i64,
    nr_written: *mut usize,
) -> c_int {
    // SAFETY: the same obligations.
    unsafe { pw_write_lsn(file, buf, size, offset, 0, nr_written) }
}

/// As ::pw_write, with the log sequence number of the write; 0 for none. Before a page is written
/// to the backend, the writeback callback (::pw_open_options_set_before_write) gets the highest log
/// sequence number of the page's writes. The callback makes the log durable up to this number.
///
/// Errors: as ::pw_write.
///
/// Threads: any.
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
        // SAFETY: by the header, null, or `size` readable bytes, to which no thread writes.
        let buf = unsafe { bytes(buf, size) }?;
        let nr = file.write_at_lsn(buf, checked_offset(offset)?, lsn)?;
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_written, nr) }
    })
}

/// Appends bytes to a file, all of them or none.
///
/// `offset`: null, or receives the position of the first byte. For a record of a log, the position
/// of its end is a suitable log sequence number.
///
/// Errors: as ::pw_write; ::PW_ERROR_OUT_OF_FRAMES at once if `size` exceeds the maximum of one
/// call, by default a quarter of the cache; ::pw_last_error states the maximum.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_append(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: *mut i64,
) -> c_int {
    // SAFETY: the same obligations.
    unsafe { pw_append_lsn(file, buf, size, 0, offset) }
}

/// As ::pw_append, with the log sequence number of the write, as ::pw_write_lsn.
///
/// Errors: as ::pw_append.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_append_lsn(
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    lsn: u64,
    offset: *mut i64,
) -> c_int {
    with(file, |file| {
        // SAFETY: by the header, null, or `size` readable bytes, to which no thread writes.
        let buf = unsafe { bytes(buf, size) }?;
        let place = file.append_lsn(buf, lsn)?;
        if offset.is_null() {
            return Ok(());
        }
        // SAFETY: by the header, valid for writes.
        unsafe { answer(offset, signed(place.start)) }
    })
}

/// Sets the size of a file, as `ftruncate`. New bytes are zeros. Pinned pages keep their bytes.
///
/// Errors: as ::pw_write: the last page before the old or new end may have to be read and changed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_set_size(file: *mut pw_file, size: i64) -> c_int {
    with(file, |file| Ok(file.set_size(checked_offset(size)?)?))
}

/// Writes dirty pages to the backend. A sync makes them durable.
///
/// `offset`, `length`: pages with any of these bytes are written; a length of 0 extends to the end.
/// `nr_pages`: null, or receives the number of pages.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, ::PW_ERROR_REFUSED, ::PW_ERROR_TOO_MANY_PINS; pages
/// that could not be written are then still dirty. Even if all pages were written, the call returns
/// an earlier writeback failure that was not yet reported to the handle. Also ::PW_ERROR_DEADLOCK,
/// ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
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
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_pages, nr) }
    })
}

/// Makes durable everything that was written to the file before the call, and the size that is
/// needed to read it, as `fdatasync`.
///
/// After ::PW_ERROR_IO the state of everything written since the last successful sync is unknown.
/// All of it is dirty again, so the next sync writes it. Each failure, also one in the background,
/// is reported once to every handle of the file.
///
/// Errors: ::PW_ERROR_READ_ONLY; ::PW_ERROR_IO (`ENOSPC` in ::pw_last_errno if the disk is full);
/// ::PW_ERROR_REFUSED by the callback or page codec; ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_DEADLOCK,
/// ::PW_ERROR_HANDLE.
///
/// Threads: any. Threads that sync one file concurrently share syncs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_data(file: *mut pw_file) -> c_int {
    with(file, |file| Ok(file.sync_data()?))
}

/// As ::pw_sync_data, and makes the other metadata of the file durable, as `fsync`.
///
/// Errors: as ::pw_sync_data.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_all(file: *mut pw_file) -> c_int {
    with(file, |file| Ok(file.sync_all()?))
}

/// Makes durable everything that was written before the call to the pages of a range, and the size
/// that is needed to read them.
///
/// `offset`, `length`: all pages with any of these bytes; a length of 0 extends to the end.
///
/// Errors: as ::pw_sync_data, and ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync_range(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    with(file, |file| Ok(file.sync_range(range(offset, length)?)?))
}

/// Removes cached pages, and drops all writes to them since their last writeback: the next read
/// gets the bytes of the file.
///
/// `offset`, `length`: the bytes; whole pages are removed. A length of 0 extends to the end.
///
/// Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, and any writeback failure not yet reported to the
/// handle; nothing is then removed. ::PW_ERROR_DEADLOCK, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_discard(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    with(file, |file| Ok(file.discard(range(offset, length)?)?))
}
