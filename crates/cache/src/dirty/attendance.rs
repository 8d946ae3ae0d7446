//! Request and attendance state of one file, in one word.
//!
//! Protocol. A caller sets *called*; if the word was zero, the caller queues a request for the
//! file. A flusher that takes the request sets *attended*, and then clears *called*: later requests
//! are for the next attempt. At the end of the attempt, the flusher clears *attended*, and queues
//! the next request if *called* was set in between.
//!
//! So a file has one request in the queue, or one flusher, or neither. After each request an
//! attempt begins that sees the caller's earlier stores. A hanging call of the backend occupies one
//! flusher, since later callers find a nonzero word. While the file has no strong reference, a
//! request may be lost or queued twice ([`Attendance::forget_call`]).
//!
//! Verified by `loom_call_vs_attend`.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

const CALLED: usize = 1 << 0;
const ATTENDED: usize = 1 << 1;

#[derive(Debug, Default)]
pub(crate) struct Attendance(AtomicUsize);

impl Attendance {
    /// Returns `true` if the caller must queue the request.
    #[must_use]
    pub(crate) fn call(&self) -> bool {
        // ORDERING: AcqRel; the release pairs with the acquire in `attend`: the attempt sees the
        // earlier stores of this thread, even if another one queued the request.
        self.0.fetch_or(CALLED, Ordering::AcqRel) == 0
    }

    /// Begins an attempt. Returns `false` if another flusher attends, which will see the request.
    #[must_use]
    pub(crate) fn attend(&self) -> bool {
        // ORDERING: AcqRel; the acquire pairs with the release in `leave` of the previous attempt.
        if self.0.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED != 0 {
            return false;
        }
        // ORDERING: AcqRel; see `call`.
        self.0.fetch_and(!CALLED, Ordering::AcqRel);
        true
    }

    /// Ends the attempt. Returns `true` if the caller must queue the next request.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: AcqRel; see `attend`, and `call`.
        self.0.fetch_and(!ATTENDED, Ordering::AcqRel) & CALLED != 0
    }

    /// Clears a request that was lost because the file had no strong reference.
    pub(crate) fn forget_call(&self) {
        // ORDERING: Relaxed. The requesting thread dropped its strong reference (release) before
        // the caller acquired its own (acquire, `Users::add_share`), so this update follows the
        // request in the modification order. If the request is in the queue nevertheless, the next
        // call adds a second one, which does no harm.
        self.0.fetch_and(!CALLED, Ordering::Relaxed);
    }
}
