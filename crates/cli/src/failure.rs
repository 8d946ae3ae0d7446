//! Why a run stopped.
//!
//! Bad usage is no `Failure`: the command line's parser reports it and exits
//! with 2 before anything runs.

use std::fmt;

/// The reason why a run ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something failed: one line for standard error, exit code 1.
    Run(String),
    /// Nobody reads standard output any more: the run ends quietly.
    OutputClosed,
    /// A signal asked the command to end.
    Interrupted,
}

impl Failure {
    /// A failed action with its cause: "cannot open `x`: no such file".
    pub(crate) fn because(action: impl fmt::Display, cause: impl fmt::Display) -> Failure {
        Failure::Run(format!("{action}: {cause}"))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Run(message)
    }
}

/// An error with what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
