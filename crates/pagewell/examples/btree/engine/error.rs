//! Errors of the tree.

use std::fmt;

use pagewell::Torn;

/// Reason why a call failed. The call has changed nothing in memory.
///
/// After a storage error ([`Cache`](Self::Cache)), changes that were not synced may be lost or may
/// survive a crash.
#[derive(Debug)]
pub(crate) enum Error {
    /// The cache or the storage failed.
    Cache(pagewell::Error),
    /// The key, or the key and its value together, exceed the maximum length.
    TooLong {
        what: &'static str,
        bytes: usize,
        max: usize,
    },
    /// A page violates the format of the tree.
    Damaged { page: u64, what: &'static str },
    /// A log record has a valid checksum, but cannot be applied.
    BadRecord { lsn: u64 },
    /// The files are not a tree, or do not belong together.
    NotATree(&'static str),
    /// The log was not restarted after a checkpoint, because its head could not be made durable.
    LogLost,
}

impl Error {
    /// Error of a page whose contents gave `Torn` although no thread was changing it.
    pub(crate) fn damaged(page: u64) -> impl Fn(Torn) -> Error {
        let what = "an offset or a length in it is invalid";
        move |Torn| Error::Damaged { page, what }
    }
}

impl From<pagewell::Error> for Error {
    fn from(error: pagewell::Error) -> Self {
        Error::Cache(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Cache(error) => error.fmt(f),
            Error::TooLong { what, bytes, max } => {
                write!(f, "cannot insert: {what} of {bytes} bytes exceeds {max}")
            }
            Error::Damaged { page, what } => write!(f, "page {page} of the tree: {what}"),
            Error::BadRecord { lsn } => {
                write!(f, "cannot recover: the log record at {lsn} does not apply")
            }
            Error::NotATree(why) => write!(f, "cannot open the tree: {why}"),
            Error::LogLost => f.write_str("the log was not restarted: reopen the tree"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Cache(error) => error.source(),
            _ => None,
        }
    }
}
