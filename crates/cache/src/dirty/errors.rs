//! The failures of writing a file back.

use std::io;

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::base::error::{Cause, Failure};

/// The failures of writing a file back; every handle is told of each once, as what it was. A later failure of the same cause stands
/// for earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Errors([Sequence; Cause::ALL.len()]);

/// How many failures of each cause a handle was told of.
#[derive(Debug, Default)]
pub(crate) struct Seen([AtomicU64; Cause::ALL.len()]);

/// The failures of one cause.
///
/// Source: the error sequence of Linux (`errseq_t`, Layton 2017).
#[derive(Debug, Default)]
#[repr(align(128))] // Every call of a handle that can tell loads the number.
struct Sequence {
    nr: AtomicU64,
    last: Mutex<Option<(Noted, Option<u64>)>>,
}

/// An error that can be told again and again.
#[derive(Clone, Debug)]
pub(crate) enum Noted {
    /// The system's number.
    Os(i32),
    Other(io::ErrorKind, String),
}

impl Noted {
    pub(crate) fn new(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::Os(number),
            None => Self::Other(error.kind(), error.to_string()),
        }
    }

    pub(crate) fn error(&self) -> io::Error {
        match self {
            Self::Os(number) => io::Error::from_raw_os_error(*number),
            Self::Other(kind, text) => io::Error::new(*kind, text.clone()),
        }
    }
}

impl Sequence {
    fn nr(&self) -> u64 {
        // ORDERING: Acquire; pairs with `note`: a thread that sees the number finds the error.
        self.nr.load(Ordering::Acquire)
    }

    fn note(&self, error: &io::Error, page: Option<u64>) {
        *lock(&self.last) = Some((Noted::new(error), page));
        // ORDERING: Release; see `nr`.
        self.nr.fetch_add(1, Ordering::Release);
    }

    fn take(&self, seen: &AtomicU64) -> Option<(io::Error, Option<u64>)> {
        let nr = self.nr();
        // ORDERING: Relaxed; the read-modify-write makes one of the handle's callers report it, and never goes back.
        if seen.fetch_max(nr, Ordering::Relaxed) >= nr {
            return None;
        }
        let last = lock(&self.last);
        last.as_ref().map(|(noted, page)| (noted.error(), *page))
    }
}

impl Errors {
    /// For a handle that is not told of the failures so far.
    pub(crate) fn seen(&self) -> Seen {
        Seen(std::array::from_fn(|cause| {
            AtomicU64::new(self.0[cause].nr())
        }))
    }

    pub(crate) fn note(&self, failure: &Failure) {
        self.0[failure.cause as usize].note(&failure.error, failure.page);
    }

    /// Marks the failures of `cause` as told.
    pub(crate) fn mark(&self, cause: Cause, seen: &Seen) {
        let _ = self.0[cause as usize].take(&seen.0[cause as usize]);
    }

    /// The last failure of a cause of which there was one that is not in `seen`, which is brought up to date for that cause.
    pub(crate) fn take(&self, seen: &Seen) -> Option<Failure> {
        Cause::ALL.into_iter().find_map(|cause| {
            let (error, page) = self.0[cause as usize].take(&seen.0[cause as usize])?;
            Some(Failure { cause, error, page })
        })
    }
}
