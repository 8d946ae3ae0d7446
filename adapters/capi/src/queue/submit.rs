//! Requests of each kind.

use std::ffi::{c_int, c_void};
use std::future::Future;

use super::executor::{Asked, Outcome, Program, pw_callback};
use super::handle::{Queue, pw_queue};
use crate::arguments::{answer, buffer, bytes, offset as checked_offset, signed, with_room};
use crate::entry::call_with;
use crate::error::{Failure, Result};
use crate::file::{OpenFile, pw_file};
use crate::handles::{Counted, used_counted};

struct Submission {
    queue: *mut pw_queue,
    file: *mut pw_file,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
}

impl Submission {
    /// Submits a request. `prepare` checks and copies the arguments, and returns the parameters of
    /// the request and the constructor of its future.
    ///
    /// # Safety
    ///
    /// (a) `request` is null, or valid for writes.
    unsafe fn make<W, F>(self, prepare: impl FnOnce() -> Result<(Asked, W)>) -> c_int
    where
        W: FnOnce(Counted<OpenFile>) -> F,
        F: Future<Output = Outcome> + Send + 'static,
    {
        call_with::<OpenFile>(self.file as u64, || {
            let queue = used_counted::<Queue>(self.queue as u64)?;
            let file = used_counted::<OpenFile>(self.file as u64)?;
            let callback = self
                .callback
                .ok_or_else(|| Failure::argument("the callback is null"))?;
            let (asked, work) = prepare()?;
            let program = Program {
                callback,
                user: self.user,
                asked,
                file: self.file as u64,
            };
            let number = queue.0.submit(program, file.again(), Box::pin(work(file)));
            if self.request.is_null() {
                return Ok(());
            }
            // SAFETY: (a).
            unsafe { answer(self.request, number) }
        })
    }
}

fn zeros(size: usize) -> Result<Vec<u8>> {
    let mut buf = with_room(size)?;
    buf.resize(size, 0);
    Ok(buf)
}

fn copied(given: &[u8]) -> Result<Vec<u8>> {
    let mut buf = with_room(given.len())?;
    buf.extend_from_slice(given);
    Ok(buf)
}

/// Reads as ::pw_read, without waiting. The callback gets the number of bytes read.
///
/// `buf`: receives the bytes; it belongs to the library until the callback. `callback`, `user`: the
/// function that is called on completion, and its argument. `request`: null, or receives the number
/// of the request, perhaps after the callback was called.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_OUT_OF_MEMORY, ::PW_ERROR_FORKED, and
/// ::PW_ERROR_BUSY while another thread is closing the queue or the file. If the call returns an
/// error, the callback is not called. Errors of the operation are passed to the callback.
///
/// Threads: any. Until the callback begins, ::pw_close of the file returns ::PW_ERROR_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_submit_read(
    queue: *mut pw_queue,
    file: *mut pw_file,
    buf: *mut c_void,
    size: usize,
    offset: i64,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
) -> c_int {
    let to = Submission {
        queue,
        file,
        callback,
        user,
        request,
    };
    let prepare = || {
        // SAFETY: the buffer is only checked here, and not accessed.
        unsafe { buffer(buf, size) }?;
        let (vec, at) = (zeros(size)?, checked_offset(offset)?);
        let asked = Asked {
            buf,
            size,
            offset,
            ..Asked::NOTHING
        };
        Ok((asked, move |file: Counted<OpenFile>| async move {
            let (vec, result) = file.file().read_at_async(vec, at).await;
            Outcome::Read(vec, result.map_err(Failure::from))
        }))
    };
    // SAFETY: (a) the caller's obligation.
    unsafe { to.make(prepare) }
}

/// Writes as ::pw_write, without waiting. The callback gets the number of bytes written.
///
/// `buf`: is copied by this call. `request`, `callback`, `user`: as for ::pw_submit_read.
///
/// Errors: as ::pw_submit_read.
///
/// Threads: as ::pw_submit_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_submit_write(
    queue: *mut pw_queue,
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    offset: i64,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
) -> c_int {
    let to = Submission {
        queue,
        file,
        callback,
        user,
        request,
    };
    let prepare = || {
        // SAFETY: by the header, null, or `size` readable bytes, to which no thread writes.
        let (vec, at) = (
            copied(unsafe { bytes(buf, size) }?)?,
            checked_offset(offset)?,
        );
        let asked = Asked {
            size,
            offset,
            ..Asked::NOTHING
        };
        Ok((asked, move |file: Counted<OpenFile>| async move {
            let (_, result) = file.file().write_at_async(vec, at).await;
            Outcome::Written(result.map_err(Failure::from))
        }))
    };
    // SAFETY: (a) the caller's obligation.
    unsafe { to.make(prepare) }
}

/// Appends as ::pw_append, without waiting. The callback gets the position of the first byte.
/// Appends that are in flight at once may be performed in any order.
///
/// `buf`: is copied by this call. `request`, `callback`, `user`: as for ::pw_submit_read.
///
/// Errors: as ::pw_submit_read.
///
/// Threads: as ::pw_submit_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_submit_append(
    queue: *mut pw_queue,
    file: *mut pw_file,
    buf: *const c_void,
    size: usize,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
) -> c_int {
    let to = Submission {
        queue,
        file,
        callback,
        user,
        request,
    };
    let prepare = || {
        // SAFETY: by the header, null, or `size` readable bytes, to which no thread writes.
        let vec = copied(unsafe { bytes(buf, size) }?)?;
        let asked = Asked {
            size,
            ..Asked::NOTHING
        };
        Ok((asked, move |file: Counted<OpenFile>| async move {
            let (_, result) = file.file().append_async(vec).await;
            let place = result.map(|place| (signed(place.start), size));
            Outcome::Appended(place.map_err(Failure::from))
        }))
    };
    // SAFETY: (a) the caller's obligation.
    unsafe { to.make(prepare) }
}

/// Syncs as ::pw_sync_data, without waiting. Makes durable all writes that were complete before
/// this call. A submitted write is complete at the latest when its callback begins.
///
/// `request`, `callback`, `user`: as for ::pw_submit_read.
///
/// Errors: as ::pw_submit_read.
///
/// Threads: as ::pw_submit_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_submit_sync_data(
    queue: *mut pw_queue,
    file: *mut pw_file,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
) -> c_int {
    let to = Submission {
        queue,
        file,
        callback,
        user,
        request,
    };
    let prepare = || {
        Ok((Asked::NOTHING, |file: Counted<OpenFile>| async move {
            Outcome::Synced(file.file().sync_data_async().await.map_err(Failure::from))
        }))
    };
    // SAFETY: (a) the caller's obligation.
    unsafe { to.make(prepare) }
}

/// Pins as ::pw_pin, without waiting. The callback gets the page.
///
/// `page_number`: the page. `request`, `callback`, `user`: as for ::pw_submit_read.
///
/// Errors: as ::pw_submit_read.
///
/// Threads: as ::pw_submit_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_submit_pin(
    queue: *mut pw_queue,
    file: *mut pw_file,
    page_number: u64,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
) -> c_int {
    let to = Submission {
        queue,
        file,
        callback,
        user,
        request,
    };
    let prepare = || {
        let asked = Asked {
            page: page_number,
            ..Asked::NOTHING
        };
        Ok((asked, move |file: Counted<OpenFile>| async move {
            let pinned = file.file().pin_async(page_number).await;
            Outcome::Pinned(pinned.map_err(Failure::from))
        }))
    };
    // SAFETY: (a) the caller's obligation.
    unsafe { to.make(prepare) }
}
