//! The errors of writing a file.

use std::io;

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, lock};

/// The errors of writing a file, each of which every handle is told of once.
///
/// Source: the error sequence of Linux (`errseq_t`, Layton 2017).
#[derive(Debug, Default)]
pub(crate) struct Errors {
    nr: AtomicU64,
    last: Mutex<Option<(io::ErrorKind, String)>>,
}

impl Errors {
    /// How many errors there were.
    pub(crate) fn nr(&self) -> u64 {
        // ORDERING: Acquire; pairs with `note`: who sees the number finds the error.
        self.nr.load(Ordering::Acquire)
    }

    pub(crate) fn note(&self, error: &io::Error) {
        *lock(&self.last) = Some((error.kind(), error.to_string()));
        // ORDERING: Release; see `nr`.
        self.nr.fetch_add(1, Ordering::Release);
    }

    /// The last error, if there was one after number `seen`, which is brought up to date.
    pub(crate) fn take(&self, seen: &AtomicU64) -> Option<io::Error> {
        let nr = self.nr();
        // ORDERING: Relaxed; the read-modify-write makes one caller of the handle tell, and never goes back.
        if seen.fetch_max(nr, Ordering::Relaxed) >= nr {
            return None;
        }
        let last = lock(&self.last);
        last.as_ref()
            .map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }
}
