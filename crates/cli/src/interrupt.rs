//! The signals that ask the command to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! The first one sets a flag. A run checks it between its steps and returns
//! [`Failure::Interrupted`], so that its temporary files are removed. The second one ends the
//! process at once. A signal that the parent process has set to be ignored (nohup does so with
//! SIGHUP) stays ignored.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use libc::c_int;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Exit status after an interruption, as a shell gives it for SIGINT.
pub(crate) const EXIT_STATUS: u8 = 130;

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handles the signals from now on, but for those that are ignored. Without it they end the
/// process at once, and its files stay.
///
/// # Errors
///
/// The kernel refused a handler.
pub(crate) fn listen() -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        handle(signal).map_err(|error| Failure::because("cannot handle signals", error))?;
    }
    Ok(())
}

fn handle(signal: c_int) -> io::Result<()> {
    if is_ignored(signal)? {
        return Ok(());
    }
    // In this order: the first signal must not find the flag set.
    flag::register_conditional_shutdown(signal, EXIT_STATUS.into(), Arc::clone(&REQUESTED))?;
    flag::register(signal, Arc::clone(&REQUESTED))?;
    Ok(())
}

/// Whether the process ignores `signal`.
fn is_ignored(signal: c_int) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given, so that nothing changes; the kernel writes the present one
    // to `action`, which is large enough.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so that the kernel has written the action.
    let action = unsafe { action.assume_init() };
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Whether a signal has asked the command to end.
pub(crate) fn is_requested() -> bool {
    // ORDERING: Relaxed; the flag publishes nothing but itself.
    REQUESTED.load(Ordering::Relaxed)
}

/// Fails if a signal has asked the command to end.
pub(crate) fn check() -> Result<(), Failure> {
    match is_requested() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}
