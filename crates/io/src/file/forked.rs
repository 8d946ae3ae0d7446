//! Restriction of a file to the process that opened it. Caches in it and in a forked child would
//! overwrite each other's pages, since the two share open files but not memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::process;

use pagewell_sync::process::ProcessId;

/// Returns [`Forked`], as an error, in every process but `opener`.
pub(crate) fn check_process(opener: ProcessId) -> io::Result<()> {
    if opener.is_current() {
        return Ok(());
    }
    Err(io::Error::other(Forked {
        opened_by: opener.id(),
        used_by: process::id(),
    }))
}

/// Error of a process that used a file opened before the `fork` that created the process. The
/// call's [`io::Error`] wraps it (see [`io::Error::get_ref`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forked {
    /// Id of the process that opened the file.
    pub opened_by: u32,
    /// Id of the process that used the file.
    pub used_by: u32,
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot use the file in process {} after a fork: process {} opened it",
            self.used_by, self.opened_by
        )
    }
}

impl Error for Forked {}
