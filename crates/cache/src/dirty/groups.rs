//! Groups of pages that are given to the storage in order: what lies before a barrier, and what lies after it.
//!
//! Place. [`File::barrier`](crate::File::barrier) ends a group; writers ask which one they write in; writeback keeps the
//! order (`writeback::barrier`).
//!
//! Protocol. There are at most two groups whose pages the storage is not known to have: the current one, and the one
//! before it (*earlier*). The number of barriers says which is the current one, and a page that is not clean says in
//! its state which one it is of ([`crate::base::page_state`]).
//! 1. A barrier, with the writeback lock held: what is left of the earlier group is made durable; then the number goes
//!    up by one, so that the current group is the earlier one.
//! 2. A writer, with the slot claimed, looks at the number. If the page is not clean and not of the current group, it
//!    lets the claim go, makes the earlier group durable, and begins again. So no page ever holds bytes of two groups,
//!    and none has to be kept in two versions.
//! 3. Writeback gives pages of the current group to the storage only when the earlier group is durable.
//!
//! A write that is under way during a barrier is before it or after it, depending on the number that the writer has seen. It may
//! store the page's state after the barrier is over. So step 1 looks for pages of the earlier group also when there should be
//! none: a write that has returned before the next barrier is called has stored its state by then.
//!
//! Invariants, with the writeback lock held.
//! - G1: a page that is not clean is of the current group or of the one before it.
//! - G2: if a page of the earlier group was written to before the last barrier was called, and is not known to be
//!   durable, then `Storage::is_split` is true, and no page of the current group has been given to the storage.
//! - G3: if a page of the earlier group was given to the storage and is not known to be durable, then
//!   `Storage::is_split` is true. So whoever finds such a page and makes the group durable does not find it again.
//! - G4: while a page is locked by a [`PageGuardMut`](crate::PageGuardMut) no barrier is made: the bytes that the guard
//!   will put into it are of no group yet, and dropping the guard cannot fail.
//!
//! Proved by: `crates/pagewell/tests/durability/groups.rs` (with losses of power), `loom_write_vs_barrier`, `loom_flush_vs_barrier`.

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::base::page_state::Group;

/// The groups of one file.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    nr_barriers: AtomicU64,
    /// How many pages are locked by guards, whose bytes are of no group yet.
    nr_open: Mutex<usize>,
}

/// A page is locked, and no barrier is made until this is dropped.
#[derive(Debug)]
pub(crate) struct Undecided<'w>(&'w Groups);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        *lock(&self.0.nr_open) -= 1;
    }
}

impl Groups {
    /// The group of what is written now.
    pub(crate) fn current(&self) -> Group {
        // ORDERING: Relaxed. Whoever has called `barrier`, or has learnt of it from who has, sees the number at least
        // as it was then, since a load never goes back behind what happened before it. Nothing is read by it.
        Group::after(self.nr_barriers.load(Ordering::Relaxed))
    }

    /// The group that is durable before the current one is given to the storage.
    pub(crate) fn earlier(&self) -> Group {
        // ORDERING: Relaxed; as above.
        Group::after(self.nr_barriers.load(Ordering::Relaxed).wrapping_add(1))
    }

    /// Keeps barriers from being made (G4).
    pub(crate) fn keep_open(&self) -> Undecided<'_> {
        *lock(&self.nr_open) += 1;
        Undecided(self)
    }

    /// Ends the current group; false if a page is locked.
    pub(crate) fn end_current(&self) -> bool {
        let nr_open = lock(&self.nr_open);
        if *nr_open != 0 {
            return false;
        }
        // ORDERING: Relaxed; see `current`. Guards are ordered by the lock, which is held.
        self.nr_barriers.fetch_add(1, Ordering::Relaxed);
        true
    }
}
