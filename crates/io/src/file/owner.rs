//! Restriction of a file to the process that opened it.

use std::error::Error;
use std::fmt;
use std::io;
use std::process;

use pagewell_sync::atomic::Ordering;
use pagewell_sync::raced::Raced;
use pagewell_sync::wiped::{WipedOnFork, Word};

/// The process that opened a file. A forked child shares open files with its parent, but not
/// memory, so caches in both would overwrite each other's pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    id: u32,
    /// Unique number of the process, in a word that is zero in forked children. `None` if the
    /// system has no such word. Then process ids are compared, by a system call for each transfer.
    name: Option<u64>,
}

/// Word with this process's name; zero in a child until the child creates an [`Owner`], e.g. for a
/// file or an engine.
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

/// Last assigned name. A child inherits this value, so it never assigns an inherited name again.
static LAST: Word = Word::new(0);

/// Assigns a new name if the word is zero.
fn name_in(word: &Word) -> u64 {
    // ORDERING: Relaxed, all three; the numbers publish no other memory. The fork orders them
    // before the accesses of a child.
    let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(name) => name,
    }
}

/// A process used a file that was opened before the `fork` that created the process. Each such call
/// fails with an [`io::Error`] that wraps this value (see [`io::Error::get_ref`]).
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
