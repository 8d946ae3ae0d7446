//! Queues, as programs have them. The module's text has the protocol.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::executor::Executor;
use crate::arguments::{answer, needed};
use crate::entry::{call, call_with};
use crate::error::Failure;
use crate::error::pw_error::*;
use crate::handles::{add, tables, take, used_counted};

/// Requests that are on their way, and their completions. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_queue {
    _opaque: (),
}

pub(crate) struct Queue(pub(super) Arc<Executor>);

tables! {
    Queue: 7, "queue", 1024;
}

/// Makes a queue.
///
/// `queue`: gets the handle, to be given back with ::pw_queue_close.
///
/// Errors: ::PW_ERROR_SYSTEM_LIMIT when there is no descriptor left, ::PW_ERROR_IO, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 queues.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_new(queue: *mut *mut pw_queue) -> c_int {
    call(|| {
        needed(queue)?;
        let handle = add(Queue(Arc::new(Executor::new()?)))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(queue, handle as *mut _) }
    })
}

/// Gives a queue back.
///
/// Errors: ::PW_ERROR_BUSY, and nothing was done, while it has requests whose callback was not called yet, or a thread is in a call with it; ::PW_ERROR_HANDLE.
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
        drop(taken.end());
        Ok(())
    })
}

/// A descriptor that is readable when ::pw_queue_run has something to do: for `poll` and `epoll`. It is the queue's; nothing else may be done with it.
///
/// `fd`: gets it.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_fd(queue: *mut pw_queue, fd: *mut c_int) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let event = used_counted::<Queue>(queue as u64)?.0.fd();
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(fd, event) }
    })
}

/// Goes on with requests, and calls the callbacks of those that are done.
///
/// `max`: how many callbacks at the most. `timeout`: how many milliseconds to wait for the first one; 0 for not at all, -1 for as long as it takes.
///
/// `nr_done`: null, or gets how many were called; 0 when the time is over.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_IO. Those of requests are told to their callbacks.
///
/// Threads: any, several with one queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_run(
    queue: *mut pw_queue,
    max: usize,
    timeout: c_int,
    nr_done: *mut usize,
) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let used = used_counted::<Queue>(queue as u64)?;
        // A callback may do what it likes with the handle, but close it.
        let executor = Arc::clone(&used.0);
        let until = match timeout {
            -1 => None,
            0.. => Some(Instant::now() + Duration::from_millis(timeout as u64)),
            _ => return Err(Failure::argument("a time is negative")),
        };
        let nr = executor.run(max, until)?;
        if nr_done.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_done, nr) }
    })
}

/// Cancels a request: its callback gets ::PW_ERROR_CANCELED. What the storage, or a thread of the cache, has begun goes on; a write, an append or a sync may be done all the
/// same, or in part. The buffer is the library's until the callback.
///
/// `request`: the number that the submission has given.
///
/// Errors: ::PW_ERROR_HANDLE, of the queue, or if the request is none, or done: then its callback gets, or has got, what has become of it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_cancel(queue: *mut pw_queue, request: u64) -> c_int {
    call_with::<Queue>(queue as u64, || {
        let used = used_counted::<Queue>(queue as u64)?;
        if !used.0.cancel(request) {
            return Err(Failure::Ours(
                PW_ERROR_HANDLE,
                format!("request {request} is done, or never was one").into(),
            ));
        }
        Ok(())
    })
}
