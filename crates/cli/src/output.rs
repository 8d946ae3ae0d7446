//! Standard output that may be a closed pipe.
//!
//! `println!` panics when the reader of a pipe has gone; here that is an
//! outcome.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// How results are printed: for people, or for programs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    #[value(alias = "text")]
    Table,
    Json,
}

/// Writes `text` and flushes it, so that a reader sees each result as it comes.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::because("cannot write to standard output", error),
        })
}

/// Width of the terminal that standard output is; none in a pipe.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col != 0).then(|| usize::from(size.ws_col))
}

/// Writes `record` as one line of JSON.
pub(crate) fn print_json(record: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(record)
        .map_err(|error| Failure::because("cannot write a record as JSON", error))?;
    line.push('\n');
    print(&line)
}

/// Writes a line to standard error. That nobody reads it is no reason to stop.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
