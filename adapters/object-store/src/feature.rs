//! Optional features of stores: heads, and conditions of gets.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of successive failures after which a feature is no longer used.
const MAX_FAILURES: u32 = 3;

/// Feature that the store may lack. One failure may have another cause, so only several in
/// succession count.
#[derive(Debug, Default)]
pub(crate) struct Feature {
    nr_failures: AtomicU32,
}

impl Feature {
    pub(crate) fn is_used(&self) -> bool {
        // ORDERING: Relaxed; the counter orders no other data.
        self.nr_failures.load(Ordering::Relaxed) < MAX_FAILURES
    }

    /// Records that the store has answered a request with the feature as expected.
    pub(crate) fn note_success(&self) {
        // ORDERING: Relaxed; as in `is_used`.
        self.nr_failures.store(0, Ordering::Relaxed);
    }

    /// Records that a request failed with the feature and then succeeded without it.
    pub(crate) fn note_failure(&self) {
        // ORDERING: Relaxed; as in `is_used`.
        self.nr_failures.fetch_add(1, Ordering::Relaxed);
    }
}
