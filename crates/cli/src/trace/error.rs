//! Why a trace cannot be read.

use std::fmt;
use std::io;

/// Why a trace cannot be read, or not to its end.
#[derive(Debug)]
pub(crate) enum TraceError {
    /// It cannot be opened.
    Open(io::Error),
    /// It is no file, or is one that is no trace.
    NotATrace(&'static str),
    /// There is not a byte in it.
    Empty,
    /// It is compressed in a way that is not read here.
    Compressed(&'static str),
    /// It is none of the formats.
    Unknown(&'static str),
    /// Reading failed after so many lines or records.
    Read {
        unit: &'static str,
        after: u64,
        source: io::Error,
    },
    /// The compressed data end before their end.
    Cut { unit: &'static str, after: u64 },
    /// More than a few lines or records are bad.
    TooManyBad {
        format: &'static str,
        unit: &'static str,
        nr_bad: u64,
        nr_all: u64,
        first: u64,
        why: &'static str,
        excerpt: String,
    },
    /// There is no read and no write in it.
    NoRequests { format: &'static str, hint: String },
    /// It names more than can be kept.
    TooManyFiles { line: u64 },
    /// Who gets the requests wants no more of them.
    Stopped {
        unit: &'static str,
        at: u64,
        why: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Open(error) => write!(f, "cannot be opened: {error}"),
            TraceError::NotATrace(what) => f.write_str(what),
            TraceError::Empty => f.write_str("is empty"),
            TraceError::Compressed(with) => write!(
                f,
                "is compressed with {with}, which is not read here: unpack it first (gzip and zstd \
                 are read)"
            ),
            TraceError::Unknown(why) => write!(
                f,
                "is no trace that is known: {why} (--trace-format names the format, if it is one \
                 of them)"
            ),
            TraceError::Read {
                unit,
                after,
                source,
            } => write!(f, "cannot be read on after {unit} {after}: {source}"),
            TraceError::Cut { unit, after } => write!(
                f,
                "is cut: its compressed data end in the middle, after {unit} {after}"
            ),
            TraceError::TooManyBad {
                format,
                unit,
                nr_bad,
                nr_all,
                first,
                why,
                excerpt,
            } => {
                write!(f, "{unit} {first}: {why}")?;
                if !excerpt.is_empty() {
                    write!(f, ": `{excerpt}`")?;
                }
                write!(
                    f,
                    "; {nr_bad} of the first {nr_all} {unit}s are bad as {format}"
                )
            }
            TraceError::NoRequests { format, hint } => {
                write!(f, "has no reads and no writes as {format}{hint}")
            }
            TraceError::TooManyFiles { line } => {
                write!(f, "line {line}: more files than can be told apart here")
            }
            TraceError::Stopped { unit, at, why } => write!(f, "{unit} {at}: {why}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The causes are in the text, since each ends a sentence of it.
        None
    }
}
