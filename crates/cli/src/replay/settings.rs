//! What was asked for.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::output::Format;
use crate::trace;

/// A run of `replay`, checked.
#[derive(Clone, Debug)]
pub(crate) struct ReplaySettings {
    /// `-` for the standard input.
    pub(crate) trace: PathBuf,
    pub(crate) trace_format: Option<trace::Format>,
    pub(crate) target: Target,
    pub(crate) engines: Vec<EngineName>,
    /// Bytes of the block of a format that has blocks, and of a page of the cache.
    pub(crate) page_size: usize,
    /// Memory of the cache; None for a fifth of what the trace touches.
    pub(crate) capacity: Option<u64>,
    pub(crate) pace: Pace,
    /// Whether a request past the end of the file ends the run.
    pub(crate) is_strict: bool,
    pub(crate) format: Format,
}

/// The file that is read, or read and written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    Read(PathBuf),
    Write(PathBuf),
}

impl Target {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Target::Read(path) | Target::Write(path) => path,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        matches!(self, Target::Write(_))
    }
}

/// When a request is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As soon as the one before is done.
    Closed,
    /// At its time in the trace, so many times as fast.
    OfTrace { speed: f64 },
}

/// A way to read and write a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EngineName {
    Pagewell,
    Pread,
    Direct,
    Mmap,
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EngineName::Pagewell => "pagewell",
            EngineName::Pread => "pread",
            EngineName::Direct => "direct",
            EngineName::Mmap => "mmap",
        })
    }
}
