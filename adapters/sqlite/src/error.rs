//! Errors for SQLite: a code that depends on the cause, and a text for its log.

use std::error::Error as _;
use std::ffi::c_int;
use std::io;
use std::path::Path;

use pagewell::{Error, ErrorKind};

use crate::abi;
use crate::host::host;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) errno: i32,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Self {
        Self {
            code,
            errno: 0,
            text: text.into(),
        }
    }

    /// `code` is the code of the operation, for causes that have no code of their own.
    pub(crate) fn of(error: &Error, code: c_int) -> Self {
        let errno = errno_of(error);
        let code = match errno {
            Some(libc::ENOSPC | libc::EDQUOT) => abi::FULL,
            _ => code_of(error.kind()).unwrap_or(code),
        };
        Self {
            code,
            errno: errno.unwrap_or_else(|| error.kind().errno()),
            text: chain(error),
        }
    }

    pub(crate) fn of_system(error: &io::Error, code: c_int, what: &str) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let code = match errno {
            libc::ENOSPC | libc::EDQUOT => abi::FULL,
            libc::ENOMEM => abi::IOERR_NOMEM,
            _ => code,
        };
        Self {
            code,
            errno,
            text: format!("{what}: {error}"),
        }
    }

    /// Writes the text to SQLite's log, and returns the code.
    pub(crate) fn tell(&self) -> c_int {
        host().log(self.code, &self.text);
        self.code
    }
}

/// Codes of the error kinds that have one of their own.
const CODES: &[(ErrorKind, c_int)] = &[
    (ErrorKind::OutOfFrames, abi::IOERR_NOMEM),
    (ErrorKind::OutOfMemory, abi::IOERR_NOMEM),
    (ErrorKind::TooManyPins, abi::IOERR_NOMEM),
    (ErrorKind::Busy, abi::BUSY),
    (ErrorKind::ReadOnly, abi::READONLY),
    (ErrorKind::FileTooLarge, abi::FULL),
    (ErrorKind::Corrupt, abi::IOERR_CORRUPTFS),
    (ErrorKind::Malformed, abi::IOERR_CORRUPTFS),
];

fn code_of(kind: ErrorKind) -> Option<c_int> {
    let found = CODES.iter().find(|(of, _)| *of == kind);
    found.map(|(_, code)| *code)
}

/// Returns the error's message with those of all its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Returns the `errno` of an I/O error among the causes: the first one that has an `errno`, or
/// whose kind implies one.
fn errno_of(error: &Error) -> Option<i32> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if let Some(number) = error.raw_os_error() {
                return Some(number);
            }
            match error.kind() {
                io::ErrorKind::StorageFull => return Some(libc::ENOSPC),
                io::ErrorKind::QuotaExceeded => return Some(libc::EDQUOT),
                _ => {}
            }
        }
        cause = error.source();
    }
    None
}

pub(crate) fn cannot(path: &Path, why: &str) -> Failure {
    Failure::new(
        abi::CANTOPEN,
        format!("cannot open {}: {why}", path.display()),
    )
}

pub(crate) fn cannot_open(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot open {}", path.display());
    Failure::of_system(error, abi::CANTOPEN, &what)
}

pub(crate) fn busy(path: &Path) -> Failure {
    Failure::new(
        abi::BUSY,
        format!("cannot open {}: it is locked elsewhere", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds without a code of their own. The test fails if a kind is in neither list.
    const OF_OPERATION: &[ErrorKind] = &[
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::InvalidPath,
        ErrorKind::PermissionDenied,
        ErrorKind::AmbiguousFile,
        ErrorKind::NotAFile,
        ErrorKind::InvalidConfig,
        ErrorKind::InvalidPageSize,
        ErrorKind::PageSizeMismatch,
        ErrorKind::OptionsMismatch,
        ErrorKind::OutOfRange,
        ErrorKind::Truncated,
        ErrorKind::LimitReached,
        ErrorKind::Throttled,
        ErrorKind::Locked,
        ErrorKind::Deadlock,
        ErrorKind::Refused,
        ErrorKind::Forked,
        ErrorKind::Unavailable,
        ErrorKind::Io,
    ];

    #[test]
    fn each_kind_has_a_code_or_that_of_the_operation() {
        for kind in ErrorKind::ALL {
            let nr = usize::from(code_of(*kind).is_some())
                + OF_OPERATION.iter().filter(|of| *of == kind).count();
            assert_eq!(nr, 1, "{kind:?}");
        }
    }
}
