//! Signal mask of the library's threads.
//!
//! Each thread of a process may handle signals that it has not blocked. A program that blocks
//! signals in its own threads, to wait for them (`sigwait`, `signalfd`) or in a critical section,
//! needs them blocked in the library's threads too. These block all signals but `SYNCHRONOUS`.

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// Signals that an instruction or a system call of the thread itself causes. If one is blocked, the
/// kernel ends the process without calling the program's handler (a crash reporter).
const SYNCHRONOUS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Starts a thread. All threads of the library are started here, except in simulations. They block
/// all signals except those for a fault of the thread itself, also while they run a callback or a
/// waker: no other handler of the program runs in them, and a signal that the program waits for
/// stays pending.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // The new thread inherits this mask. If it set the mask itself, a signal could arrive earlier.
    let _blocked = Blocked::new()?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Blocks all signals except [`SYNCHRONOUS`] in the calling thread until it is dropped.
#[derive(Debug)]
struct Blocked {
    before: libc::sigset_t,
    /// Prevents `Send`: a signal mask belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl Blocked {
    /// An error leaves the mask unchanged.
    fn new() -> io::Result<Self> {
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is valid for writes of a set. The call cannot fail.
        unsafe { libc::sigfillset(signals.as_mut_ptr()) };
        // SAFETY: `sigfillset` has initialized the set.
        let mut signals = unsafe { signals.assume_init() };
        for signal in SYNCHRONOUS {
            // SAFETY: the set is initialized, and the number is that of a signal.
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
        // SAFETY: `before` is initialized, and no old mask is returned. The call cannot fail.
        let _ = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}
