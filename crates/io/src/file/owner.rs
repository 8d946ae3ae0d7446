//! The process that opened a file, and no other.

use std::error::Error;
use std::fmt;
use std::io;
use std::process;

/// The process that opened a file.
///
/// A process that forks shares its open files with the child, and the memory of neither is told of
/// what the other writes: caches in both would write over each other's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    id: u32,
}

impl Owner {
    pub(super) fn this_process() -> Self {
        Self { id: process::id() }
    }

    /// Fails in every other process. It costs a system call that does nothing, which is little beside
    /// the one that it guards.
    pub(super) fn check(self) -> io::Result<()> {
        let used_by = process::id();
        if used_by == self.id {
            return Ok(());
        }
        Err(io::Error::other(Forked {
            opened_by: self.id,
            used_by,
        }))
    }
}

/// A file was used by another process than the one that opened it: a child made by `fork`.
///
/// It is what is inside the [`io::Error`] (see [`io::Error::get_ref`]) that every call then fails
/// with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forked {
    /// The process that opened the file.
    pub opened_by: u32,
    /// The process that used it.
    pub used_by: u32,
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "used by process {} after a fork, but opened by process {}",
            self.used_by, self.opened_by
        )
    }
}

impl Error for Forked {}
