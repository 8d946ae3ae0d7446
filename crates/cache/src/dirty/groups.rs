//! Owners of page locks: the thread, if any, that owns the guard of a page pinned for writing.
//!
//! A guard is recorded from before it locks its page until the page is unlocked. A writer that
//! finds a page locked looks up the owner, so as not to wait for its own thread
//! ([`crate::write::lock_wait`]).
//!
//! Verified by: the models of `models/locked_pages.rs`;
//! `crates/pagewell/tests/durability/guards.rs`.

use std::collections::HashMap;

use pagewell_sync::shard::Padded;
use pagewell_sync::{Mutex, lock};

use crate::dirty::hook::this_thread;

#[derive(Debug, Default)]
pub(crate) struct Groups {
    open: Padded<Mutex<HashMap<u64, Owner>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Identity ([`this_thread`]) of the thread that owns the guard, which cannot be sent.
    Thread(usize),
    Nobody,
}

/// Record of a guard that locks a page, or is about to.
#[derive(Debug)]
pub(crate) struct Undecided<'w> {
    groups: &'w Groups,
    holder: u64,
}

impl Undecided<'_> {
    fn set(&self, owner: Owner) {
        lock(&self.groups.open).insert(self.holder, owner);
    }

    pub(crate) fn attach(&self) {
        self.set(Owner::Thread(this_thread()));
    }

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
    pub(crate) fn keep_open(&self, holder: u64) -> Undecided<'_> {
        let groups = self;
        let undecided = Undecided { groups, holder };
        undecided.attach();
        undecided
    }

    /// Whether this thread owns the guard `holder`. Only this thread can change the answer.
    pub(crate) fn is_of_this_thread(&self, holder: u64) -> bool {
        lock(&self.open).get(&holder) == Some(&Owner::Thread(this_thread()))
    }
}
