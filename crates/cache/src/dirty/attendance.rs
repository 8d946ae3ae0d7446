//! Request and attendance state of one file, in one word.
//!
//! Protocol. A caller sets *called*. If the word was zero, the caller puts a request for the file
//! into the queue. A flusher that takes the request sets *attended*, and then clears *called*:
//! later requests are for the next attempt. When the attempt ends, the flusher clears *attended*.
//! If *called* was set in between, the flusher puts the next request into the queue.
//!
//! So a file has either one request in the queue, or one flusher, or neither. After each request an
//! attempt begins that sees what the caller did before the request. While a flusher hangs in a call
//! for the file, no second flusher is occupied, since later callers find a nonzero word.
//!
//! A request may be lost while the file has no strong reference, since no flusher then attends to
//! it: [`Attendance::forget_call`].
//!
//! Verified by `loom_call_vs_attend`.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

const CALLED: usize = 1 << 0;
const ATTENDED: usize = 1 << 1;

#[derive(Debug, Default)]
pub(crate) struct Attendance(AtomicUsize);

impl Attendance {
    /// Records a request. Returns `true` if the caller must put it into the queue.
    #[must_use]
    pub(crate) fn call(&self) -> bool {
        // ORDERING: AcqRel; the release pairs with the acquire in `attend`: the attempt that
        // follows sees what this thread did before, even if another thread queued the request.
        self.0.fetch_or(CALLED, Ordering::AcqRel) == 0
    }

    /// Begins an attempt. Returns `false` if another flusher attends to the file; that flusher sees
    /// the request at the end of its attempt.
    #[must_use]
    pub(crate) fn attend(&self) -> bool {
        // ORDERING: AcqRel. The acquire pairs with the release in `leave`: an attempt sees the
        // stores of the previous one.
        if self.0.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED != 0 {
            return false;
        }
        // ORDERING: AcqRel; see `call`.
        self.0.fetch_and(!CALLED, Ordering::AcqRel);
        true
    }

    /// Ends the attempt. Returns `true` if the caller must put the next request into the queue.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: AcqRel; see `attend`, and `call`.
        self.0.fetch_and(!ATTENDED, Ordering::AcqRel) & CALLED != 0
    }

    /// Clears a request to which no flusher attended because the file had no strong reference.
    pub(crate) fn forget_call(&self) {
        // ORDERING: Relaxed. The thread that made the request had a strong reference to the file,
        // and dropped it (release) before the caller acquired its own (acquire,
        // `Users::add_share`). So this update comes after the request in the modification order of
        // the word. If a request is in the queue nevertheless, the next call adds a second one. The
        // flusher that takes the second request finds that another flusher attends, or that no page
        // is dirty.
        self.0.fetch_and(!CALLED, Ordering::Relaxed);
    }
}
