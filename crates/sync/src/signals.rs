//! Signal mask of the library's threads.
//!
//! A signal that is sent to a process is handled by any of its threads that has not blocked it. A
//! program that blocks signals in its own threads, to wait for them (`sigwait`, `signalfd`) or to
//! protect a critical section, cannot block them in the library's threads. Therefore the library's
//! threads block all signals except those that the kernel sends for a fault of the thread itself.

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// Signals that the kernel sends for an instruction or a system call of the thread itself. If such
/// a signal is blocked, the kernel ends the process without calling the program's handler (for
/// example, a crash reporter).
const SYNCHRONOUS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Starts a thread. All threads of the library are started here. They block all signals except
/// those that the kernel sends for a fault of the thread itself, so that no other handler of the
/// program runs in them, and a signal that the program waits for stays pending. The signals are
/// also blocked while such a thread runs a callback or a waker of the program.
///
/// # Errors
///
/// The system's error.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // The new thread inherits this thread's mask. If it set the mask itself, a signal could arrive
    // before that.
    let _blocked = Blocked::new()?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Guard that blocks all signals except [`SYNCHRONOUS`] in the calling thread until it is dropped.
/// A thread that is started before the drop blocks them from its first instruction on.
#[derive(Debug)]
struct Blocked {
    before: libc::sigset_t,
    /// A mask belongs to one thread: not `Send`.
    _thread: PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks the signals.
    ///
    /// # Errors
    ///
    /// The system's error; the mask is as it was.
    fn new() -> io::Result<Self> {
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is valid for writes of a set. It cannot fail.
        unsafe { libc::sigfillset(signals.as_mut_ptr()) };
        // SAFETY: `sigfillset` has initialized the set.
        let mut signals = unsafe { signals.assume_init() };
        for signal in SYNCHRONOUS {
            // SAFETY: a reference to an initialized set, and the number of a signal.
            unsafe { libc::sigdelset(&raw mut signals, signal) };
        }
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the new mask is initialized, and the pointer for the old one valid for writes.
        let error = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const signals, before.as_mut_ptr())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(Self {
            // SAFETY: the call succeeded and has written the old mask.
            before: unsafe { before.assume_init() },
            _thread: PhantomData,
        })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` is an initialized set, and no old mask is returned. The call cannot
        // fail: its first argument is valid.
        let _ = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}
