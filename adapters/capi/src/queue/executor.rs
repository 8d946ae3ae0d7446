//! Requests, from future to completion, and the list of those to be polled.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::io;
use std::mem::{replace, take};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use library::OwnedPageGuard;

use crate::entry::caught;
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::file::OpenFile;
use crate::handles::{Counted, mark_dead, this_process};
use crate::pins::{self, Pinned, pw_page};

/// Result of a request, passed to its ::pw_callback.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_completion {
    /// Number of the request, as returned by its submission.
    pub request: u64,
    /// ::PW_OK, or the error; ::pw_last_error returns the message during the callback.
    pub error: c_int,
    /// The `errno` of the error, as ::pw_last_errno.
    pub error_errno: c_int,
    /// Number of bytes read or written; for ::pw_submit_pin, the number of bytes of the page.
    pub size: usize,
    /// For ::pw_submit_append, the position of the first byte. Otherwise the `offset` of the
    /// submission, or 0 if it has none.
    pub offset: i64,
    /// For ::pw_submit_pin, the page, to be released with ::pw_unpin. Otherwise empty.
    pub page: pw_page,
}

/// Completion callback, called once for each request, by a thread that is in ::pw_queue_run. It may
/// make any call, including submissions, ::pw_queue_cancel and ::pw_queue_run, except
/// ::pw_queue_close of this queue.
///
/// `completion`: the result; valid only during the call.
#[allow(non_camel_case_types)]
pub type pw_callback =
    Option<unsafe extern "C" fn(completion: *const pw_completion, user: *mut c_void)>;

pub(super) enum Outcome {
    Read(Vec<u8>, Result<usize>),
    Written(Result<usize>),
    Appended(Result<(i64, usize)>),
    Synced(Result<()>),
    Pinned(Result<OwnedPageGuard>),
    Canceled,
    Panicked(String),
}

pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

enum Stage {
    Working(Work),
    /// Another thread drops the future.
    Canceling,
    Done(Outcome),
    /// The callback is being called, or was called.
    Over,
}

/// Parameters of a request that its completion needs.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    /// Buffer of a read.
    pub(super) buf: *mut c_void,
    pub(super) size: usize,
    pub(super) offset: i64,
    /// Page number of a pin.
    pub(super) page: u64,
}

impl Asked {
    pub(super) const NOTHING: Self = Self {
        buf: std::ptr::null_mut(),
        size: 0,
        offset: 0,
        page: 0,
    };
}

#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) callback: unsafe extern "C" fn(*const pw_completion, *mut c_void),
    pub(super) user: *mut c_void,
    pub(super) asked: Asked,
    pub(super) file: u64,
}

// SAFETY: the header requires a function for any thread, and a buffer that the library may use.
unsafe impl Send for Program {}
// SAFETY: as above; threads only copy the value.
unsafe impl Sync for Program {}

struct Request {
    number: u64,
    program: Program,
    /// Keeps the file in use until just before the callback, which may close the file.
    file: Mutex<Option<Counted<OpenFile>>>,
    stage: Mutex<Stage>,
    is_listed: AtomicBool,
    queue: Arc<Executor>,
}

pub(super) struct Executor {
    /// Number of the process that created the queue. Its forks share the open file description of
    /// `event`, and neither read nor write it.
    process: u64,
    /// Readable while the list is not empty.
    event: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listed: VecDeque<Arc<Request>>,
    /// Requests whose callback was not called yet.
    requests: HashMap<u64, Arc<Request>>,
    last: u64,
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
    /// Step 2: lists the request, at most once. A request whose callback was called is not listed:
    /// list and request would be a cycle of references, since each request refers to its queue.
    fn list(self: &Arc<Self>) {
        // ORDERING: AcqRel; pairs with the swap in `next`: the poll that follows it sees what the
        // waker did, and a waker that finds the flag clear sees that the request is off the list.
        if !self.is_listed.swap(true, Ordering::AcqRel) {
            let mut state = lock(&self.queue.state);
            if state.requests.contains_key(&self.number) {
                state.listed.push_back(Arc::clone(self));
                // Under the lock, so that the descriptor agrees with the list.
                self.queue.signal();
            }
        }
    }

    /// Polls the future of the request. If it panics, the request is complete.
    fn poll_work(self: &Arc<Self>, work: &mut Work) -> Poll<Outcome> {
        let waker = Waker::from(Arc::clone(self));
        caught(|| work.as_mut().poll(&mut Context::from_waker(&waker)))
            .unwrap_or_else(|message| Poll::Ready(self.panicked(message)))
    }

    /// Marks the handle of the file as dead, as a call that panics does.
    fn panicked(&self, message: String) -> Outcome {
        mark_dead::<OpenFile>(self.program.file);
        Outcome::Panicked(message)
    }

    /// Polls the request if its future is not complete. Returns the outcome if the future is
    /// complete and no other thread has taken the outcome.
    fn poll(self: &Arc<Self>) -> Option<Outcome> {
        let mut stage = lock(&self.stage);
        if let Stage::Working(work) = &mut *stage {
            match self.poll_work(work) {
                Poll::Ready(outcome) => *stage = Stage::Done(outcome),
                Poll::Pending => return None,
            }
        }
        match replace(&mut *stage, Stage::Over) {
            Stage::Done(outcome) => Some(outcome),
            other => {
                *stage = other;
                None
            }
        }
    }

    /// Calls the callback, which may use the file and the queue, so the caller holds no lock.
    fn finish(&self, outcome: Outcome) {
        let (completion, failure) = self.completion(outcome);
        if let Some(failure) = failure {
            failure.tell();
        }
        drop(lock(&self.file).take());
        // SAFETY: the header requires a function that accepts these arguments and returns.
        unsafe { (self.program.callback)(&raw const completion, self.program.user) };
    }

    fn completion(&self, outcome: Outcome) -> (pw_completion, Option<Failure>) {
        let program = self.program;
        let mut completion = pw_completion {
            request: self.number,
            error: 0,
            error_errno: 0,
            size: 0,
            offset: program.asked.offset,
            page: pw_page::NONE,
        };
        let result = match outcome {
            Outcome::Canceled => Err(Failure::Outcome(PW_ERROR_CANCELED)),
            Outcome::Panicked(message) => Err(Failure::Ours(PW_ERROR_PANIC, message.into())),
            Outcome::Written(result) => result.map(|size| completion.size = size),
            Outcome::Appended(result) => {
                result.map(|(offset, size)| (completion.offset, completion.size) = (offset, size))
            }
            Outcome::Synced(result) => result,
            Outcome::Read(bytes, result) => result.map(|size| {
                // SAFETY: the submission has checked the buffer, which belongs to the library until
                // the callback. The bytes are at most as many as its size, and in other memory.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        program.asked.buf.cast(),
                        size.min(program.asked.size),
                    )
                };
                completion.size = size;
            }),
            Outcome::Pinned(result) => result.and_then(|guard| {
                // SAFETY: (a) the pin does not borrow.
                completion.page = unsafe {
                    pins::keep(
                        program.file,
                        program.asked.page,
                        Pinned::Owned(Box::new(guard)),
                    )
                }?;
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

impl Executor {
    pub(super) fn new() -> Result<Self> {
        // SAFETY: the call takes only numbers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            let error = io::Error::last_os_error();
            let code = match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => PW_ERROR_SYSTEM_LIMIT,
                _ => PW_ERROR_IO,
            };
            return Err(Failure::System(
                code,
                "cannot create a queue: eventfd",
                error,
            ));
        }
        // SAFETY: a new descriptor, which has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Self {
            process: this_process(),
            event,
            state: Mutex::default(),
        })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    pub(super) fn nr_requests(&self) -> usize {
        lock(&self.state).requests.len()
    }

    /// Step 5: empties the list of a queue whose table is empty. A listed request refers to the
    /// queue, which would otherwise never be freed.
    pub(super) fn close(&self) {
        let listed = take(&mut lock(&self.state).listed);
        drop(listed);
    }

    fn signal(&self) {
        let one = 1_u64;
        // SAFETY: the descriptor belongs to this value, and the buffer has eight bytes. If the
        // counter is full, the call fails, and the descriptor is readable in any case.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes a request off the list, and makes the descriptor unreadable if that was the last one.
    fn next(&self) -> Option<Arc<Request>> {
        let mut state = lock(&self.state);
        let request = state.listed.pop_front()?;
        if state.listed.is_empty() {
            let mut count = 0_u64;
            // SAFETY: this value's descriptor, which does not block; the buffer has eight bytes.
            unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
        drop(state);
        // ORDERING: AcqRel, as in `list`: a waker that is called from now on lists it again.
        request.is_listed.swap(false, Ordering::AcqRel);
        Some(request)
    }

    /// Waits until a request is on the list, a signal handler interrupts the wait, or the deadline
    /// has passed. Returns `false` for the deadline.
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
                // Rounded up, so that the deadline has passed when `poll` returns.
                c_int::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
            }
        };
        // SAFETY: the pointer is to one structure of this function.
        match unsafe { libc::poll(&raw mut event, 1, timeout) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                error => Err(Failure::System(
                    PW_ERROR_IO,
                    "cannot wait for requests: poll",
                    error,
                )),
            },
        }
    }

    /// Step 1: accepts a new request.
    pub(super) fn submit(
        self: &Arc<Self>,
        program: Program,
        file: Counted<OpenFile>,
        work: Work,
    ) -> u64 {
        self.accept(program, Some(file), work)
    }

    fn accept(
        self: &Arc<Self>,
        program: Program,
        file: Option<Counted<OpenFile>>,
        work: Work,
    ) -> u64 {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        let request = Arc::new(Request {
            number,
            program,
            file: Mutex::new(file),
            stage: Mutex::new(Stage::Working(work)),
            is_listed: AtomicBool::new(false),
            queue: Arc::clone(self),
        });
        state.requests.insert(number, Arc::clone(&request));
        drop(state);
        let mut stage = lock(&request.stage);
        if let Stage::Working(work) = &mut *stage
            && let Poll::Ready(outcome) = request.poll_work(work)
        {
            *stage = Stage::Done(outcome);
            drop(stage);
            request.list();
        }
        number
    }

    /// Step 3: waits until the deadline for a complete request, and calls up to `max` callbacks.
    /// Returns their number.
    pub(super) fn run(&self, max: usize, until: Option<Instant>) -> Result<usize> {
        let mut nr = 0;
        while nr < max {
            let Some(request) = self.next() else {
                if nr != 0 || !self.wait(until)? {
                    break;
                }
                continue;
            };
            let Some(outcome) = request.poll() else {
                continue;
            };
            lock(&self.state).requests.remove(&request.number);
            nr += 1;
            request.finish(outcome);
            // The callback may have forked, and have returned in the child.
            if self.process != this_process() {
                return Err(Failure::Ours(
                    PW_ERROR_FORKED,
                    "the process was forked in a callback".into(),
                ));
            }
        }
        Ok(nr)
    }

    /// Step 4: cancels a request if its future is not complete. Returns whether it was canceled.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let Some(request) = lock(&self.state).requests.get(&number).cloned() else {
            return false;
        };
        let mut stage = lock(&request.stage);
        let work = match replace(&mut *stage, Stage::Canceling) {
            Stage::Working(work) => work,
            other => {
                *stage = other;
                return false;
            }
        };
        drop(stage);
        // Dropped before the request has an outcome: the callback may close the file, which the
        // future uses.
        let outcome = match caught(|| drop(work)) {
            Ok(()) => Outcome::Canceled,
            Err(message) => request.panicked(message),
        };
        *lock(&request.stage) = Stage::Done(outcome);
        request.list();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::ptr;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static NR_CALLBACKS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn count(_completion: *const pw_completion, _user: *mut c_void) {
        NR_CALLBACKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Appends the error of the completion to `user`.
    unsafe extern "C" fn note(completion: *const pw_completion, user: *mut c_void) {
        // SAFETY: `noted` passes a list that is not used elsewhere during a run.
        let errors = unsafe { &mut *user.cast::<Vec<c_int>>() };
        // SAFETY: the completion is valid during the call.
        errors.push(unsafe { (*completion).error });
    }

    fn noted(errors: &mut Vec<c_int>) -> Program {
        Program {
            callback: note,
            user: ptr::from_mut(errors).cast(),
            asked: Asked::NOTHING,
            file: 0,
        }
    }

    /// Regression test: the callback was not called, and the queue could not be closed.
    #[test]
    fn request_that_panics_completes() {
        let executor = Arc::new(Executor::new().unwrap());
        let mut errors = Vec::new();
        for nr_pending in 0..2 {
            let program = noted(&mut errors);
            let mut nr = 0;
            let work = poll_fn(move |context| {
                assert!(nr < nr_pending, "a panic of a future");
                nr += 1;
                context.waker().wake_by_ref();
                Poll::Pending
            });
            executor.accept(program, None, Box::pin(work));
            assert_eq!(executor.run(1, Some(Instant::now())).unwrap(), 1);
            assert_eq!(executor.nr_requests(), 0);
        }
        assert_eq!(errors, [PW_ERROR_PANIC as c_int; 2]);
    }

    /// Future whose drop runs the queue, as another thread may do during the drop.
    struct Running {
        executor: Arc<Executor>,
        waker: Option<Waker>,
        nr_callbacks: Arc<AtomicUsize>,
    }

    impl Future for Running {
        type Output = Outcome;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
            self.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
            let nr = self.executor.run(1, Some(Instant::now())).unwrap();
            self.nr_callbacks.store(nr, Ordering::Relaxed);
        }
    }

    /// The callback may close the file, which the future uses.
    #[test]
    fn canceled_future_is_dropped_before_the_callback() {
        let executor = Arc::new(Executor::new().unwrap());
        let mut errors = Vec::new();
        let nr_callbacks = Arc::new(AtomicUsize::new(0));
        let work = Running {
            executor: Arc::clone(&executor),
            waker: None,
            nr_callbacks: Arc::clone(&nr_callbacks),
        };
        let number = executor.accept(noted(&mut errors), None, Box::pin(work));
        assert!(executor.cancel(number));
        assert_eq!(nr_callbacks.load(Ordering::Relaxed), 0);
        assert!(!executor.cancel(number));
        assert_eq!(executor.run(1, Some(Instant::now())).unwrap(), 1);
        assert_eq!(executor.nr_requests(), 0);
        assert_eq!(errors, [PW_ERROR_CANCELED as c_int]);
    }

    /// Whether an executor is freed after its close, although a request is woken late: by a poll
    /// that completes it, or after its callback was called.
    fn is_freed(is_woken_by_poll: bool) -> bool {
        let executor = Arc::new(Executor::new().unwrap());
        let program = Program {
            callback: count,
            user: std::ptr::null_mut(),
            asked: Asked::NOTHING,
            file: 0,
        };
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let work = {
            let waker = Arc::clone(&waker);
            poll_fn(
                move |context| match lock(&waker).replace(context.waker().clone()) {
                    None => Poll::Pending,
                    Some(_) => {
                        if is_woken_by_poll {
                            context.waker().wake_by_ref();
                        }
                        Poll::Ready(Outcome::Synced(Ok(())))
                    }
                },
            )
        };
        executor.accept(program, None, Box::pin(work));
        let first = lock(&waker).clone().unwrap();
        first.wake();
        let before = NR_CALLBACKS.load(Ordering::Relaxed);
        assert_eq!(executor.run(1, Some(Instant::now())).unwrap(), 1);
        assert_eq!(NR_CALLBACKS.load(Ordering::Relaxed), before + 1);
        assert_eq!(executor.nr_requests(), 0);
        executor.close();
        lock(&waker).take().unwrap().wake();
        let freed = Arc::downgrade(&executor);
        drop(executor);
        freed.upgrade().is_none()
    }

    #[test]
    fn closed_queue_is_freed_although_wakers_are_late() {
        assert!(is_freed(true));
        assert!(is_freed(false));
    }
}
