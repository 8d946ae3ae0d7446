//! Groups of pages that are given to the storage in order: the pages before a barrier, then the pages after it.
//!
//! Place. [`File::barrier`](crate::File::barrier) ends a group; writers ask which group they write in; writeback keeps the
//! order (`writeback::barrier`).
//!
//! Protocol. At most two groups have pages that the storage is not known to have: the current one, and the one
//! before it (*earlier*). The number of barriers says which group is the current one, and the state of a page that is not clean
//! says which group the page is of ([`crate::base::page_state`]).
//! 1. A barrier, with the writeback lock held, makes the rest of the earlier group durable. Then it adds one to the number,
//!    so the current group becomes the earlier one.
//! 2. A writer, with the slot claimed, loads the number. If the page is not clean and not of the current group, the writer
//!    drops the claim, makes the earlier group durable, and begins again. So no page ever holds bytes of two groups,
//!    and none has to be kept in two versions.
//! 3. Writeback gives pages of the current group to the storage only when the earlier group is durable. From when it begins with that,
//!    to when it has succeeded or failed, the earlier group is *being settled* ([`Groups::settling`]): the writer of step 2 waits
//!    for that end, and not for the writeback lock, whose holder has the current group to write and to sync after that.
//!
//! A write that is under way during a barrier is before it or after it, depending on the number that the writer has loaded. The
//! writer may store the page's state after the barrier is over. So step 1 looks for pages of the earlier group even when there
//! should be none: a write that returned before the call of the next barrier has stored its state by then.
//!
//! Invariants, with the writeback lock held.
//! - G1: a page that is not clean is of the current group or of the one before it.
//! - G2: if a page of the earlier group was written to before the last barrier was called, and is not known to be
//!   durable, then `Storage::is_split` is true, and no page of the current group has been given to the storage.
//! - G3: if a page of the earlier group was given to the storage and is not known to be durable, then
//!   `Storage::is_split` is true. So a thread that finds such a page and makes the group durable does not find it again.
//! - G4: while a page is locked by a [`PageGuardMut`](crate::PageGuardMut) no barrier is made: the bytes that the guard
//!   will put into it are of no group yet, and dropping the guard cannot fail.
//!
//! Proved by: `crates/pagewell/tests/durability/groups.rs` (with losses of power), `loom_write_vs_barrier`,
//! `loom_flush_vs_barrier`, `loom_write_vs_settle`; the mutant `settled-without-waking`.

use std::collections::HashMap;

use pagewell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::Padded;
use pagewell_sync::{Mutex, lock};

use crate::base::page_state::Group;
use crate::dirty::hook::this_thread;

/// The groups of one file.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    nr_barriers: AtomicU64,
    /// Whether a holder of the writeback lock makes the earlier group durable.
    is_settling: Padded<AtomicBool>,
    /// The guards that lock pages, or are about to, by the number of their lock; and whose they are. The bytes of their pages are
    /// of no group yet.
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

/// A guard locks a page, or is about to, and no barrier is made until this is dropped.
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

/// A holder of the writeback lock makes the earlier group durable, until this is dropped: also by a panic.
#[derive(Debug)]
pub(crate) struct Settling<'w> {
    is_settling: &'w AtomicBool,
    waits: &'w WaitTable,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; who waits looks at the page again, and takes the writeback lock if it is still of the earlier group. That a
        // sleeper does not miss it is the wait table's matter.
        self.is_settling.store(false, Ordering::Relaxed);
        self.waits.wake(self.is_settling);
    }
}

impl Groups {
    /// Says that the earlier group is being settled. The caller holds the writeback lock, and nobody else says so.
    pub(crate) fn settling<'w>(&'w self, waits: &'w WaitTable) -> Settling<'w> {
        // ORDERING: Relaxed; a writer that does not see it waits for the lock.
        self.is_settling.store(true, Ordering::Relaxed);
        Settling {
            is_settling: &self.is_settling,
            waits,
        }
    }

    /// Whether the earlier group is being settled: if so, sleeps until that has ended.
    pub(crate) fn wait_while_settling(&self, waits: &WaitTable) -> bool {
        // ORDERING: Relaxed; as in the drop of `Settling`.
        let is_settling = |word: &AtomicBool| word.load(Ordering::Relaxed);
        let waits_for_it = is_settling(&self.is_settling);
        if waits_for_it {
            waits.wait_while(&*self.is_settling, is_settling);
        }
        waits_for_it
    }

    /// The group of writes that begin now.
    pub(crate) fn current(&self) -> Group {
        // ORDERING: Relaxed. A thread that has called `barrier`, or has learnt of the call from another, sees at least the number
        // of that moment, since a load never goes back behind what happened before it. The number publishes nothing.
        Group::after(self.nr_barriers.load(Ordering::Relaxed))
    }

    /// The group that has to be durable before the current one is given to the storage.
    pub(crate) fn earlier(&self) -> Group {
        // ORDERING: Relaxed; as above.
        Group::after(self.nr_barriers.load(Ordering::Relaxed).wrapping_add(1))
    }

    /// Keeps barriers from being made (G4), for a guard of this thread with this number.
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

    /// Ends the current group; false if a page is locked.
    pub(crate) fn end_current(&self) -> bool {
        let open = lock(&self.open);
        if !open.is_empty() {
            return false;
        }
        // ORDERING: Relaxed; see `current`. Guards are ordered by the lock, which is held.
        self.nr_barriers.fetch_add(1, Ordering::Relaxed);
        true
    }
}
