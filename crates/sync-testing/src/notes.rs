//! Records of accesses to memory that may be shared.

use std::cell::RefCell;
use std::panic::Location;

use crate::schedule::point;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Store to an atomic.
    Store,
    /// Read-modify-write of an atomic.
    Update,
    /// `SeqCst` fence.
    Fence,
    /// Lock acquisition.
    Lock,
}

/// One recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// Kind of the access.
    pub kind: Kind,
    /// Source file of the access, or the type whose reference count changed.
    pub site: &'static str,
    /// Line in the file; 0 for a reference count.
    pub line: u32,
}

thread_local! {
    static NOTES: RefCell<Option<Vec<Note>>> = const { RefCell::new(None) };
}

/// Runs `work`, and returns its result together with the accesses that this thread made in it.
pub fn noted<R>(work: impl FnOnce() -> R) -> (R, Vec<Note>) {
    NOTES.set(Some(Vec::new()));
    let result = work();
    (result, NOTES.take().unwrap_or_default())
}

pub(crate) fn note_at(kind: Kind, site: &'static str, line: u32) {
    let note = Note { kind, site, line };
    // A thread that destroys its thread-locals records nothing.
    let _ = NOTES.try_with(|notes| {
        if let Ok(mut notes) = notes.try_borrow_mut()
            && let Some(notes) = &mut *notes
        {
            notes.push(note);
        }
    });
}

/// Precedes an operation that is recorded: a scheduling [`point`].
#[track_caller]
pub(crate) fn note_and_point(kind: Kind) {
    let place = Location::caller();
    note_at(kind, place.file(), place.line());
    point();
}
