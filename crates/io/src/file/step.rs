//! Errors that name the failed step of opening a file.

use std::error::Error;
use std::{fmt, io};

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
