//! Requests that do not wait, and queues that their completions come from.
//!
//! - Owns: `pw_queue`, `pw_completion`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`, `pins`.
//! - Promises: each request that was taken has one callback, in a call of `pw_queue_run`, with no lock held. A buffer is the library's from the submission until
//!   the callback begins.
//!
//! # What
//!
//! A request is a future of the library, with all that it owns, and a queue is its executor, of which the program is the thread: a waker puts its request
//! on the queue's list, and makes the queue's descriptor readable; `pw_queue_run` polls what is on the list. So callbacks run where the program wants them, and the
//! library has no thread more.
//!
//! # Protocol
//!
//! 1. A submission polls its future once, so that the storage begins. A hit is ready then.
//! 2. A waker sets `is_listed`; the first to do so puts the request on the list.
//! 3. A run takes a request off the list, clears `is_listed`, polls under the request's own mutex, and, if it is ready, takes it out of the queue's table: one run
//!    can do that. Then it calls the callback.
//! 4. A cancellation drops the future under the request's mutex, and lists it. Who has polled it to the end before wins.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use library::OwnedPageGuard;

use crate::arguments::{answer, buffer, bytes, needed, offset as checked_offset, signed};
use crate::entry::{call, call_with};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::file::{OpenFile, pw_file};
use crate::handles::{Counted, add, tables, take, used_counted};
use crate::pins::{self, Pinned, pw_page};

/// Requests that are on their way, and their completions. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_queue {
    _opaque: (),
}

/// What has become of a request; what a ::pw_callback gets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_completion {
    /// The request's number, which its submission has given.
    pub request: u64,
    /// ::PW_OK, or why it has failed; ::pw_last_error has the text during the callback.
    pub error: c_int,
    /// The `errno` behind it, as ::pw_last_errno.
    pub error_errno: c_int,
    /// How many bytes were read or written.
    pub size: usize,
    /// Of ::pw_submit_append: where the bytes begin. Else where they were asked for, or 0.
    pub offset: i64,
    /// Of ::pw_submit_pin: the page, which the program gives back with ::pw_unpin. Else empty.
    pub page: pw_page,
}

/// Is called once for each request, by a thread that is in ::pw_queue_run. It may do anything, also submit, cancel and run, but close the queue.
///
/// `completion`: what has become of it; only during the call. `user`: what the submission was given.
///
/// It must return: no exception, `longjmp` or end of the thread may lead out of it.
#[allow(non_camel_case_types)]
pub type pw_callback =
    Option<unsafe extern "C" fn(completion: *const pw_completion, user: *mut c_void)>;

/// What a future has brought.
enum Outcome {
    Read(Vec<u8>, Result<usize>),
    Written(Result<usize>),
    Appended(Result<(i64, usize)>),
    Synced(Result<()>),
    Pinned(Result<OwnedPageGuard>),
    Canceled,
}

type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

enum Stage {
    Working(Work),
    Done(Outcome),
    /// Its callback is being called, or was.
    Over,
}

/// The program's side of a request.
#[derive(Clone, Copy)]
struct Program {
    callback: unsafe extern "C" fn(*const pw_completion, *mut c_void),
    user: *mut c_void,
    /// Of a read.
    buf: *mut c_void,
    size: usize,
    offset: i64,
    page: u64,
    file: u64,
}

// SAFETY: the header asks for a function that any thread which runs the queue may call, and leaves the buffer to the library meanwhile.
unsafe impl Send for Program {}
// SAFETY: as above; it is only copied.
unsafe impl Sync for Program {}

struct Request {
    number: u64,
    program: Program,
    /// In use until just before the callback, which may close it.
    file: Mutex<Option<Counted<OpenFile>>>,
    stage: Mutex<Stage>,
    is_listed: AtomicBool,
    queue: Arc<Inner>,
}

struct Inner {
    /// Readable as long as something is on the list.
    event: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: VecDeque<Arc<Request>>,
    /// Those whose callback was not called yet.
    requests: HashMap<u64, Arc<Request>>,
    last: u64,
}

pub(crate) struct Queue(Arc<Inner>);

tables! {
    Queue: 7, "queue", 1024;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Request {
    fn wake(self: Arc<Self>) {
        self.list();
    }
}

impl Request {
    /// Puts it on the list, if it is not there: step 2.
    fn list(self: &Arc<Self>) {
        // ORDERING: AcqRel: what was done before is seen by the poll that follows a cleared flag, and the other way round.
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            let mut state = lock(&self.queue.state);
            state.list.push_back(Arc::clone(self));
            // Under the lock, so that the descriptor says what the list does.
            self.queue.signal();
        }
    }

    /// Polls it, if it is still at work.
    fn poll(self: &Arc<Self>) -> Option<Outcome> {
        let mut stage = lock(&self.stage);
        if let Stage::Working(work) = &mut *stage {
            let waker = Waker::from(Arc::clone(self));
            match work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => *stage = Stage::Done(outcome),
                Poll::Pending => return None,
            }
        }
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Done(outcome) => Some(outcome),
            other => {
                *stage = other;
                None
            }
        }
    }

    /// What has become of it, for the program, and the failure.
    fn completion(&self, outcome: Outcome) -> (pw_completion, Option<Failure>) {
        let program = self.program;
        let mut completion = pw_completion {
            request: self.number,
            error: 0,
            error_errno: 0,
            size: 0,
            offset: program.offset,
            page: pw_page::NONE,
        };
        let result = match outcome {
            Outcome::Canceled => Err(Failure::Outcome(PW_ERROR_CANCELED)),
            Outcome::Written(result) => result.map(|size| completion.size = size),
            Outcome::Appended(result) => {
                result.map(|(offset, size)| (completion.offset, completion.size) = (offset, size))
            }
            Outcome::Synced(result) => result,
            Outcome::Read(bytes, result) => result.map(|size| {
                // SAFETY: the submission has checked the buffer, and it is the library's until the callback begins; the bytes are no more
                // than it has, and are memory of another owner.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        program.buf.cast(),
                        size.min(program.size),
                    )
                };
                completion.size = size;
            }),
            Outcome::Pinned(result) => result.and_then(|guard| {
                // SAFETY: (a) it does not borrow.
                completion.page =
                    unsafe { pins::keep(program.file, program.page, Pinned::Owned(guard)) }?;
                completion.size = completion.page.size;
                Ok(())
            }),
        };
        let failure = result.err();
        if let Some(failure) = &failure {
            completion.error = failure.code() as c_int;
            completion.error_errno = failure.errno();
        }
        (completion, failure)
    }
}

impl Inner {
    /// Makes the descriptor readable.
    fn signal(&self) {
        let one = 1_u64;
        // SAFETY: our own descriptor, and eight bytes. It fails when the count is full, and then it is readable.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes a request off the list; makes the descriptor say whether there are more.
    fn next(&self) -> Option<Arc<Request>> {
        let mut state = lock(&self.state);
        let request = state.list.pop_front()?;
        if state.list.is_empty() {
            let mut count = 0_u64;
            // SAFETY: our own descriptor, which does not block, and eight bytes.
            unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
        drop(state);
        // ORDERING: AcqRel, as in `list`: a waker from now on lists it again.
        request.is_listed.swap(false, Ordering::AcqRel);
        Some(request)
    }

    /// Waits until something is on the list, or the time is over: whether there is.
    fn wait(&self, until: Option<Instant>) -> Result<bool> {
        let mut event = libc::pollfd {
            fd: self.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = match until {
            None => -1,
            Some(until) => {
                let rest = until.saturating_duration_since(Instant::now());
                // Up, so that the time is over when it returns.
                c_int::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
            }
        };
        // SAFETY: one structure of our own.
        match unsafe { libc::poll(&raw mut event, 1, timeout) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                error => Err(Failure::System(PW_ERROR_IO, "poll", error)),
            },
        }
    }

    /// Takes a new request: step 1.
    fn submit(self: &Arc<Self>, program: Program, file: Counted<OpenFile>, work: Work) -> u64 {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        let request = Arc::new(Request {
            number,
            program,
            file: Mutex::new(Some(file)),
            stage: Mutex::new(Stage::Working(work)),
            is_listed: AtomicBool::new(false),
            queue: Arc::clone(self),
        });
        state.requests.insert(number, Arc::clone(&request));
        drop(state);
        let waker = Waker::from(Arc::clone(&request));
        let mut stage = lock(&request.stage);
        if let Stage::Working(work) = &mut *stage
            && let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(&waker))
        {
            *stage = Stage::Done(outcome);
            drop(stage);
            request.list();
        }
        number
    }
}

/// Makes a queue.
///
/// `queue`: gets the handle, to be given back with ::pw_queue_close.
///
/// Errors: ::PW_ERROR_IO when the system has no descriptor left, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 queues.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_queue_new(queue: *mut *mut pw_queue) -> c_int {
    call(|| {
        needed(queue)?;
        // SAFETY: the call takes numbers only.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(Failure::System(
                PW_ERROR_IO,
                "eventfd",
                io::Error::last_os_error(),
            ));
        }
        // SAFETY: a new descriptor, which nobody else has.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let inner = Inner {
            event,
            state: Mutex::default(),
        };
        let handle = add(Queue(Arc::new(inner)))?;
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
        let nr = lock(&taken.object().0.state).requests.len();
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
        let event = used_counted::<Queue>(queue as u64)?.0.event.as_raw_fd();
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
        let inner = Arc::clone(&used.0);
        let until = match timeout {
            -1 => None,
            0.. => Some(Instant::now() + Duration::from_millis(timeout as u64)),
            _ => return Err(Failure::argument("a time is negative")),
        };
        let mut nr = 0;
        while nr < max {
            let Some(request) = inner.next() else {
                if nr != 0 || !inner.wait(until)? {
                    break;
                }
                continue;
            };
            let Some(outcome) = request.poll() else {
                continue;
            };
            lock(&inner.state).requests.remove(&request.number);
            let (completion, failure) = request.completion(outcome);
            if let Some(failure) = failure {
                failure.tell();
            }
            nr += 1;
            drop(lock(&request.file).take());
            // SAFETY: the header asks for a function that may be called so, and that returns.
            unsafe { (request.program.callback)(&raw const completion, request.program.user) };
        }
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
        let none = || {
            Failure::Ours(
                PW_ERROR_HANDLE,
                format!("request {request} is done, or never was one").into(),
            )
        };
        let found = lock(&used.0.state).requests.get(&request).cloned();
        let found = found.ok_or_else(none)?;
        let mut stage = lock(&found.stage);
        let Stage::Working(_) = &*stage else {
            return Err(none());
        };
        let work = std::mem::replace(&mut *stage, Stage::Done(Outcome::Canceled));
        drop(stage);
        drop(work);
        found.list();
        Ok(())
    })
}

/// What a submission is of.
struct Submission {
    queue: *mut pw_queue,
    file: *mut pw_file,
    callback: pw_callback,
    user: *mut c_void,
    request: *mut u64,
}

impl Submission {
    /// Checks it, makes the future, and submits it.
    ///
    /// # Safety
    ///
    /// (a) `request` is null, or good for writes.
    unsafe fn make(
        self,
        fill: impl FnOnce(&mut Program) -> Result<()>,
        work: impl FnOnce(Counted<OpenFile>) -> Result<Work>,
    ) -> c_int {
        call_with::<OpenFile>(self.file as u64, || {
            let queue = used_counted::<Queue>(self.queue as u64)?;
            let file = used_counted::<OpenFile>(self.file as u64)?;
            let callback = self
                .callback
                .ok_or_else(|| Failure::argument("the callback is null"))?;
            let mut program = Program {
                callback,
                user: self.user,
                buf: std::ptr::null_mut(),
                size: 0,
                offset: 0,
                page: 0,
                file: self.file as u64,
            };
            fill(&mut program)?;
            let number = queue.0.submit(program, file.again(), work(file)?);
            if self.request.is_null() {
                return Ok(());
            }
            // SAFETY: (a).
            unsafe { answer(self.request, number) }
        })
    }
}

/// Makes a vector of so many zeros; an error where the system has no memory for it.
fn zeros(size: usize) -> Result<Vec<u8>> {
    let mut buf = Vec::new();
    buf.try_reserve_exact(size)
        .map_err(|_| Failure::Ours(PW_ERROR_OUT_OF_MEMORY, format!("{size} bytes").into()))?;
    buf.resize(size, 0);
    Ok(buf)
}

/// Makes a copy of the program's bytes.
fn copied(given: &[u8]) -> Result<Vec<u8>> {
    let mut buf = Vec::new();
    buf.try_reserve_exact(given.len()).map_err(|_| {
        Failure::Ours(
            PW_ERROR_OUT_OF_MEMORY,
            format!("{} bytes", given.len()).into(),
        )
    })?;
    buf.extend_from_slice(given);
    Ok(buf)
}

/// Reads as ::pw_read, without waiting. The callback gets how many bytes were read.
///
/// `buf`: gets the bytes; it is the library's until the callback. `request`: null, or gets the number of the request. `callback`, `user`: what is called when it is done.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_OUT_OF_MEMORY; then there is no callback. All else goes to the callback.
///
/// Threads: any, several with one queue and one file. Until the callback ::pw_close of the file is ::PW_ERROR_BUSY.
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
    let fill = |program: &mut Program| {
        // SAFETY: only checked here.
        unsafe { buffer(buf, size) }?;
        (program.buf, program.size, program.offset) = (buf, size, offset);
        Ok(())
    };
    let work = |file: Counted<OpenFile>| {
        let (vec, offset) = (zeros(size)?, checked_offset(offset)?);
        let work: Work = Box::pin(async move {
            let (vec, result) = file.file().read_at_async(vec, offset).await;
            Outcome::Read(vec, result.map_err(Failure::from))
        });
        Ok(work)
    };
    // SAFETY: (a) the caller's duty.
    unsafe {
        Submission {
            queue,
            file,
            callback,
            user,
            request,
        }
        .make(fill, work)
    }
}

/// Writes as ::pw_write, without waiting. The callback gets how many bytes were written.
///
/// `buf`: is copied; the program has it back when this returns. `request`, `callback`, `user`: as of ::pw_submit_read.
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
    let fill = |program: &mut Program| {
        (program.size, program.offset) = (size, offset);
        Ok(())
    };
    let work = |file: Counted<OpenFile>| {
        // SAFETY: the caller's duty: null, or good for reads of `size` bytes, which nobody writes to.
        let (vec, offset) = (
            copied(unsafe { bytes(buf, size) }?)?,
            checked_offset(offset)?,
        );
        let work: Work = Box::pin(async move {
            Outcome::Written(
                file.file()
                    .write_at_async(vec, offset)
                    .await
                    .1
                    .map_err(Failure::from),
            )
        });
        Ok(work)
    };
    // SAFETY: (a) the caller's duty.
    unsafe {
        Submission {
            queue,
            file,
            callback,
            user,
            request,
        }
        .make(fill, work)
    }
}

/// Appends as ::pw_append, without waiting. The callback gets where the bytes begin. Several that are on their way at once may be appended in any order.
///
/// `buf`: is copied; the program has it back when this returns. `request`, `callback`, `user`: as of ::pw_submit_read.
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
    let fill = |program: &mut Program| {
        program.size = size;
        Ok(())
    };
    let work = |file: Counted<OpenFile>| {
        // SAFETY: the caller's duty: null, or good for reads of `size` bytes, which nobody writes to.
        let vec = copied(unsafe { bytes(buf, size) }?)?;
        let work: Work = Box::pin(async move {
            Outcome::Appended({
                let result = file.file().append_async(vec).await.1;
                result
                    .map(|place| (signed(place.start), size))
                    .map_err(Failure::from)
            })
        });
        Ok(work)
    };
    // SAFETY: (a) the caller's duty.
    unsafe {
        Submission {
            queue,
            file,
            callback,
            user,
            request,
        }
        .make(fill, work)
    }
}

/// Syncs as ::pw_sync_data, without waiting: what was written before this call.
///
/// `request`, `callback`, `user`: as of ::pw_submit_read.
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
    let work = |file: Counted<OpenFile>| {
        let work: Work = Box::pin(async move {
            Outcome::Synced(file.file().sync_data_async().await.map_err(Failure::from))
        });
        Ok(work)
    };
    // SAFETY: (a) the caller's duty.
    unsafe {
        Submission {
            queue,
            file,
            callback,
            user,
            request,
        }
        .make(|_| Ok(()), work)
    }
}

/// Pins as ::pw_pin, without waiting. The callback gets the page.
///
/// `page_number`: the page. `request`, `callback`, `user`: as of ::pw_submit_read.
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
    let fill = |program: &mut Program| {
        program.page = page_number;
        Ok(())
    };
    let work = |file: Counted<OpenFile>| {
        let work: Work = Box::pin(async move {
            Outcome::Pinned(
                file.file()
                    .pin_async(page_number)
                    .await
                    .map_err(Failure::from),
            )
        });
        Ok(work)
    };
    // SAFETY: (a) the caller's duty.
    unsafe {
        Submission {
            queue,
            file,
            callback,
            user,
            request,
        }
        .make(fill, work)
    }
}
