//! Owners of page locks: whose each [`PageGuardMut`](crate::PageGuardMut) is.
//!
//! Place. A guard is noted here from before it locks its page until the page is unlocked. A writer
//! that meets a locked page looks up the number of the lock, so that it does not wait for its own
//! thread ([`crate::write::lock_wait`]).
//!
//! Proved by: the models of `models/locked_pages.rs`; `crates/pagewell/tests/durability/guards.rs`.

use std::collections::HashMap;

use pagewell_sync::shard::Padded;
use pagewell_sync::{Mutex, lock};

use crate::dirty::hook::this_thread;

/// The owners of the page locks of one file.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The guards that lock pages, or are about to, by the number of their lock, each with its owner.
    open: Padded<Mutex<HashMap<u64, Owner>>>,
}

/// Whose a guard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This thread's ([`this_thread`]): it stays there.
    Thread(usize),
    /// No thread's: it may be anywhere.
    Nobody,
}

/// The note of a guard that locks a page, or is about to; taken back when this is dropped.
#[derive(Debug)]
pub(crate) struct Undecided<'w> {
    groups: &'w Groups,
    holder: u64,
}

impl Undecided<'_> {
    fn set(&self, owner: Owner) {
        lock(&self.groups.open).insert(self.holder, owner);
    }

    /// From now on the guard is this thread's.
    pub(crate) fn attach(&self) {
        self.set(Owner::Thread(this_thread()));
    }

    /// From now on the guard is no thread's.
    pub(crate) fn detach(&self) {
        self.set(Owner::Nobody);
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        lock(&self.groups.open).remove(&self.holder);
    }
}

impl Groups {
    /// Notes a guard of this thread with this number.
    pub(crate) fn keep_open(&self, holder: u64) -> Undecided<'_> {
        let groups = self;
        let undecided = Undecided { groups, holder };
        undecided.attach();
        undecided
    }

    /// Whether the guard with this number is this thread's. Only the thread itself changes that.
    pub(crate) fn is_of_this_thread(&self, holder: u64) -> bool {
        lock(&self.open).get(&holder) == Some(&Owner::Thread(this_thread()))
    }
}
