//! Whether a file is called for, and attended: one word.
//!
//! Protocol. A caller sets *called*. If the word was empty, it puts a call for the file into the queue. A flusher that takes the
//! call sets *attended*, and then clears *called*: later callers are for the next attempt. When it is done it clears *attended*,
//! and if the file was called for meanwhile, puts the next call into the queue.
//!
//! So there is one call in the queue, or one flusher at the file, or neither; and each call is followed by the begin of an attempt
//! that sees what the caller has done before. A flusher that hangs keeps no other one: callers find the word not empty.
//!
//! A call may be lost while the file has no share, since then nobody attends to it: [`Attendance::forget_call`].
//!
//! Proved by `loom_call_vs_attend`.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

const CALLED: usize = 1 << 0;
const ATTENDED: usize = 1 << 1;

/// Whether a file is called for, and attended.
#[derive(Debug, Default)]
pub(crate) struct Attendance(AtomicUsize);

impl Attendance {
    /// Notes a call; whether it is to be put into the queue.
    #[must_use]
    pub(crate) fn call(&self) -> bool {
        // ORDERING: AcqRel; the release pairs with the acquire in `attend`: the attempt that follows sees what this thread has
        // done before, also if another one has put the call into the queue.
        self.0.fetch_or(CALLED, Ordering::AcqRel) == 0
    }

    /// Begins to attend; false if another flusher does: it will see the call when it is done.
    #[must_use]
    pub(crate) fn attend(&self) -> bool {
        // ORDERING: AcqRel. The acquire pairs with the release in `leave`: an attempt sees what the one before it has left.
        if self.0.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED != 0 {
            return false;
        }
        // ORDERING: AcqRel; see `call`.
        self.0.fetch_and(!CALLED, Ordering::AcqRel);
        true
    }

    /// Attends no more; whether a call is to be put into the queue.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: AcqRel; see `attend`, and `call`.
        self.0.fetch_and(!ATTENDED, Ordering::AcqRel) & CALLED != 0
    }

    /// Forgets a call that nobody attended to, since the file had no share.
    pub(crate) fn forget_call(&self) {
        // ORDERING: Relaxed. Whoever made the call had a share of the file, and gave it up (release) before the caller got the one
        // that it has now (acquire, `Users::add_share`); so this comes after the call in the order of the word. If a call is in
        // the queue after all, there are two then: whoever comes second finds that another one attends, or that there is
        // nothing to do.
        self.0.fetch_and(!CALLED, Ordering::Relaxed);
    }
}
