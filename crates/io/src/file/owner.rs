//! Restriction of a file to the process that opened it.

use std::error::Error;
use std::fmt;
use std::io;
use std::process;

use pagewell_sync::atomic::Ordering;
use pagewell_sync::raced::Raced;
use pagewell_sync::wiped::{WipedOnFork, Word};

/// The process that opened a file. Caches in it and in a forked child would overwrite each other's
/// pages, since the two share open files but not memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    id: u32,
    /// Unique number of the process, in a word that is zero in forked children. If the system has
    /// no such word: `None`, and each check compares process ids, by a system call.
    name: Option<u64>,
}

/// This process's name. Zero in a child until the child creates an [`Owner`].
static NAME: Raced<Option<WipedOnFork>> = Raced::new();

fn word() -> Option<&'static Word> {
    let wiped = NAME.get_or_make(WipedOnFork::new).as_ref();
    wiped.map(WipedOnFork::word)
}

impl Owner {
    pub(crate) fn this_process() -> Self {
        Self {
            id: process::id(),
            name: word().map(name_in),
        }
    }

    /// Returns [`Forked`], as an error, in every other process.
    pub(crate) fn check(self) -> io::Result<()> {
        let is_here = match (self.name, word()) {
            // ORDERING: Relaxed; if this process created the `Owner`, it stored the name before. In
            // a child, the word never has a name that a parent stored.
            (Some(name), Some(word)) => word.load(Ordering::Relaxed) == name,
            _ => process::id() == self.id,
        };
        if is_here {
            return Ok(());
        }
        Err(io::Error::other(Forked {
            opened_by: self.id,
            used_by: process::id(),
        }))
    }
}

/// Last assigned name. A child inherits it, and so never assigns an inherited name again.
static LAST: Word = Word::new(0);

/// Returns the name in the word. If the word is zero, first assigns a new name.
fn name_in(word: &Word) -> u64 {
    // ORDERING: Relaxed, all three; the numbers publish no other memory. The fork orders them
    // before the accesses of a child.
    let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(name) => name,
    }
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
