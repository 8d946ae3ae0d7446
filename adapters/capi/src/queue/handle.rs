//! Handles of queues, and the calls with them. Protocol: parent module.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::executor::Executor;
use crate::arguments::{answer, needed};
use crate::entry::{call, call_with};
use crate::error::Failure;
use crate::error::pw_error::*;
use crate::handles::{add, tables, take, used_counted};

/// Queue: requests in flight, and their completions. A handle, not an address.
#[allow(non_camel_case_types)]
pub struct pw_queue {
    _opaque: (),
}

pub(crate) struct Queue(pub(super) Arc<Executor>);

tables! {
    Queue: 7, "queue", 1024, Counted;
}

/// Creates a queue.
///
/// `queue`: receives the handle; closed with ::pw_queue_close.
///
/// Errors: ::PW_ERROR_SYSTEM_LIMIT if no descriptor is left, ::PW_ERROR_IO, ::PW_ERROR_ARGUMENT,
/// ::PW_ERROR_LIMIT if 1023 queues exist.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_new(queue: *mut *mut pw_queue) -> c_int {
    call(|| {
        needed(queue)?;
        let handle = add(Queue(Arc::new(Executor::new()?)))?;
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(queue, handle as *mut _) }
    })
}

/// Closes a queue.
///
/// Errors: ::PW_ERROR_BUSY if a callback of a request was not called yet, or a thread is in a call
/// with the queue; ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_close(queue: *mut pw_queue) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let mut taken = take::<Queue>(queue as u64)?;
        let nr = taken.object().0.nr_requests();
        if nr != 0 {
            return Err(Failure::Ours(
                PW_ERROR_BUSY,
                format!("the queue has {nr} requests").into(),
            ));
        }
        taken.end().0.close();
        Ok(())
    })
}

/// Returns in `fd` a descriptor for `poll` and `epoll`, which is readable when ::pw_queue_run has
/// work to do. It belongs to the queue, and the program must not use it in any other way.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_fd(queue: *mut pw_queue, fd: *mut c_int) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let event = used_counted::<Queue>(queue as u64)?.0.fd();
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(fd, event) }
    })
}

/// Guard that disables cancellation, which would unwind the library and end the process.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        /// `PTHREAD_CANCEL_DISABLE`.
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: a valid state, and a place that is valid for writes.
        let _ = unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: as above; the state is the one that the thread had.
        let _ = unsafe { pthread_setcancelstate(self.0, &raw mut disabled) };
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Continues requests, and calls the callbacks of those that are complete.
///
/// `max`: the maximum number of callbacks. `timeout`: the time in milliseconds to wait for the
/// first complete request; 0 for no wait, -1 for no limit. `nr_done`: null, or receives the number
/// of callbacks called; 0 after a timeout.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_IO. Callbacks get the errors of
/// requests.
///
/// Threads: any. The call and its callbacks are no cancellation points: a thread that is cancelled
/// (`pthread_cancel`, deferred) continues to the end of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_run(
    queue: *mut pw_queue,
    max: usize,
    timeout: c_int,
    nr_done: *mut usize,
) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let used = used_counted::<Queue>(queue as u64)?;
        let executor = Arc::clone(&used.0);
        let until = match timeout {
            -1 => None,
            0.. => Some(Instant::now() + Duration::from_millis(timeout as u64)),
            _ => return Err(Failure::argument("the timeout is negative, and not -1")),
        };
        let nr = {
            let _uncancelled = Uncancelled::new();
            executor.run(max, until)?
        };
        if nr_done.is_null() {
            return Ok(());
        }
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_done, nr) }
    })
}

/// Cancels a request: its callback gets ::PW_ERROR_CANCELED. If the backend or a thread of the
/// cache has started the operation, it continues: a write, an append or a sync may still be
/// performed, entirely or in part. A read's buffer belongs to the library until the callback.
///
/// `request`: the number that the submission returned.
///
/// Errors: ::PW_ERROR_HANDLE if the queue is not open, or if the request does not exist, is
/// complete, or was canceled already. The callback of a complete or canceled request has been
/// called, or will be.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_cancel(queue: *mut pw_queue, request: u64) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let used = used_counted::<Queue>(queue as u64)?;
        if !used.0.cancel(request) {
            return Err(Failure::Ours(
                PW_ERROR_HANDLE,
                format!("request {request} is complete or canceled, or does not exist").into(),
            ));
        }
        Ok(())
    })
}
