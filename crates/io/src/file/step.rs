//! Errors of opening a file other than those of `open(2)`: they name the failed step.

use std::error::Error;
use std::{fmt, io};

/// Failed step of opening a file, with the error of the system as its source.
#[derive(Debug)]
pub(super) struct FailedStep {
    step: &'static str,
    source: io::Error,
}

impl FailedStep {
    pub(super) fn error(kind: io::ErrorKind, step: &'static str, source: io::Error) -> io::Error {
        io::Error::new(kind, Self { step, source })
    }
}

impl fmt::Display for FailedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.step)
    }
}

impl Error for FailedStep {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
