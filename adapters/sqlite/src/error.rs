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

    /// Converts an error of the library. `code` is the code of the operation, for causes that have
    /// no code of their own.
    pub(crate) fn of(error: &Error, code: c_int) -> Self {
        let errno = errno_of(error);
        let code = match (errno, error.kind()) {
            (Some(libc::ENOSPC | libc::EDQUOT), _) => abi::FULL,
            (_, ErrorKind::OutOfFrames | ErrorKind::OutOfMemory | ErrorKind::TooManyPins) => {
                abi::IOERR_NOMEM
            }
            (_, ErrorKind::Busy) => abi::BUSY,
            (_, ErrorKind::ReadOnly) => abi::READONLY,
            (_, ErrorKind::FileTooLarge) => abi::FULL,
            (_, ErrorKind::Corrupt | ErrorKind::Malformed) => abi::IOERR_CORRUPTFS,
            _ => code,
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

/// Returns the `errno` of a system call among the causes, if any.
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

/// Returns the error of an open that fails because of `why`.
pub(crate) fn cannot(path: &Path, why: &str) -> Failure {
    Failure::new(
        abi::CANTOPEN,
        format!("cannot open {}: {why}", path.display()),
    )
}

/// Returns the error of an open that fails because of an error of the system.
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
