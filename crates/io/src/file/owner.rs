//! The process that opened a file, and no other.

use std::error::Error;
use std::fmt;
use std::io;
use std::process;

use pagewell_sync::atomic::Ordering;
use pagewell_sync::raced::Raced;
use pagewell_sync::wiped::{WipedOnFork, Word};

/// The process that opened a file.
///
/// A process that forks shares its open files with the child, and the memory of neither is told of
/// what the other writes: caches in both would write over each other's pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    id: u32,
    /// What this process calls itself, in a word that children find empty. None where the system has no such word: there the
    /// numbers of processes are compared, at a system call for each transfer.
    name: Option<u64>,
}

/// The word. It is made once, and inherited by children, where it is empty until they open a file themselves.
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

    /// Fails in every other process.
    pub(crate) fn check(self) -> io::Result<()> {
        let is_here = match (self.name, word()) {
            // ORDERING: Relaxed; stored before the value was returned, or by the process that is not this one.
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

/// The last name that was given. Children inherit it as it was, so the names that they give are none of those that they have inherited.
static LAST: Word = Word::new(0);

/// The name in the word; a new one, if there is none yet.
fn name_in(word: &Word) -> u64 {
    // ORDERING: Relaxed, all three; a name is a number, and the word is all that is shared. In a child, the fork orders them.
    let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(name) => name,
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
