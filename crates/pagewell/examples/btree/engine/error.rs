//! Why a call of the tree fails.

use std::fmt;

/// Why a call fails. Nothing has changed then, unless `Cache` says that the storage has failed: what of the log was not synced is in doubt
/// after that.
#[derive(Debug)]
pub(crate) enum Error {
    /// The cache, or the storage.
    Cache(pagewell::Error),
    /// A key, or a key with its value, is too long: it has so many bytes, and may have so many.
    TooLong { bytes: usize, most: usize },
    /// A page is not what it must be.
    Malformed { page: u64, what: &'static str },
    /// A record of the log with a good checksum cannot be done again.
    BadRecord { lsn: u64 },
    /// The files do not belong together, or are no tree.
    NoTree(&'static str),
    /// The log could not be started over, so it is not known where it begins. Open the tree again.
    LogLost,
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
            Error::TooLong { bytes, most } => {
                write!(
                    f,
                    "an entry or its key has {bytes} bytes, {most} at the most fit"
                )
            }
            Error::Malformed { page, what } => write!(f, "page {page} of the tree: {what}"),
            Error::BadRecord { lsn } => {
                write!(f, "the record before {lsn} of the log fits no page")
            }
            Error::NoTree(why) => write!(f, "no tree: {why}"),
            Error::LogLost => f.write_str("the log could not be started over: open the tree again"),
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
