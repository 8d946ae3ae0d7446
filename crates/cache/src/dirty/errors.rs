use std::io;

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::base::error::{Cause, Failure};

/// Writeback errors, by cause. Every handle reports each error, or a later one of its cause, once.
#[derive(Debug, Default)]
pub(crate) struct Errors([Sequence; Cause::ALL.len()]);

/// For each cause, the number of errors up to which a handle has reported them.
#[derive(Debug, Default)]
pub(crate) struct Seen([AtomicU64; Cause::ALL.len()]);

/// Errors of one cause. Source: the error sequence of Linux (`errseq_t`, Layton 2017).
#[derive(Debug, Default)]
#[repr(align(128))] // Every call of a handle that can report an error loads the number.
struct Sequence {
    nr: AtomicU64,
    last: Mutex<Option<(Noted, Option<u64>)>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Noted {
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
        // ORDERING: Relaxed; a read-modify-write lets only one caller of a handle report the error.
        if seen.fetch_max(nr, Ordering::Relaxed) >= nr {
            return None;
        }
        let last = lock(&self.last);
        last.as_ref().map(|(noted, page)| (noted.error(), *page))
    }
}

impl Errors {
    /// Returns the state of a new handle, which does not report earlier errors.
    pub(crate) fn seen(&self) -> Seen {
        Seen(std::array::from_fn(|cause| {
            AtomicU64::new(self.0[cause].nr())
        }))
    }

    pub(crate) fn note(&self, failure: &Failure) {
        self.0[failure.cause as usize].note(&failure.error, failure.page);
    }

    pub(crate) fn mark(&self, cause: Cause, seen: &Seen) {
        let _ = self.0[cause as usize].take(&seen.0[cause as usize]);
    }

    /// Returns the last error of the first cause with errors not in `seen`, and records them there.
    pub(crate) fn take(&self, seen: &Seen) -> Option<Failure> {
        Cause::ALL.into_iter().find_map(|cause| {
            let (error, page) = self.0[cause as usize].take(&seen.0[cause as usize])?;
            Some(Failure { cause, error, page })
        })
    }
}
