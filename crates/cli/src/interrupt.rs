//! The signals that ask the command to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! The first one sets a flag. A run checks it between its steps and returns [`Failure::Interrupted`], so that its
//! temporary files are removed. The second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Exit status after an interruption, as a shell gives it for SIGINT.
pub(crate) const EXIT_STATUS: u8 = 130;

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handles the signals from now on. Without it they end the process at once, and its files stay.
///
/// # Errors
///
/// The kernel refused a handler.
pub(crate) fn listen() -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal must not find the flag set.
        flag::register_conditional_shutdown(signal, EXIT_STATUS.into(), Arc::clone(&REQUESTED))
            .and_then(|_| flag::register(signal, Arc::clone(&REQUESTED)))
            .map_err(|error| Failure::because("cannot handle signals", error))?;
    }
    Ok(())
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
