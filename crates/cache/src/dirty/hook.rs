//! Records of threads: the holder of a lock, owners of page locks, and the callbacks that the
//! current thread is in.

use std::cell::Cell;
use std::collections::HashMap;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::ledger::{self, InProgram, Resource};
use pagewell_sync::shard::Padded;
use pagewell_sync::{Mutex, lock};

use crate::base::page_hooks::is_in_page_hook;

thread_local! {
    /// Number of callbacks that this thread is in. Has no destructor, so that destructors of other
    /// thread-local variables may use it.
    static NR_HOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Thread that holds a lock ([`this_thread`]), or 0. Only compared with the calling thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadMark(AtomicUsize);

/// Returns the identity of this thread: an address that no other living thread has, never 0.
pub(crate) fn this_thread() -> usize {
    NR_HOOKS.with(|nr| std::ptr::from_ref(nr).addr())
}

impl ThreadMark {
    pub(crate) fn set(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(this_thread(), Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: Relaxed; only the thread itself stores its identity, and clears it before it
        // releases the lock. A thread that reuses the address starts after the other's end.
        self.0.load(Ordering::Relaxed) == this_thread()
    }
}

/// Record that this thread is in a callback. The thread holds the writeback lock of the callback's
/// file, so its writes to other files must not write that file back.
pub(crate) struct InHook<'w> {
    mark: &'w ThreadMark,
    _in_program: InProgram,
}

impl<'w> InHook<'w> {
    /// The thread holds the writeback lock of the file with the given `mark`.
    pub(crate) fn enter(mark: &'w ThreadMark) -> Self {
        let in_program = ledger::enter("a writeback callback", &[Resource::FileLock]);
        NR_HOOKS.set(NR_HOOKS.get() + 1);
        mark.set();
        Self {
            mark,
            _in_program: in_program,
        }
    }

    /// Whether this thread is in a writeback callback or a page codec of any file.
    pub(crate) fn is_so() -> bool {
        NR_HOOKS.get() != 0 || is_in_page_hook()
    }

    /// Whether this thread is in the callback of the file with the given `mark`.
    pub(crate) fn is_of(mark: &ThreadMark) -> bool {
        NR_HOOKS.get() != 0 && mark.is_set()
    }
}

impl Drop for InHook<'_> {
    fn drop(&mut self) {
        self.mark.clear();
        NR_HOOKS.set(NR_HOOKS.get() - 1);
    }
}

/// Owners of page locks: the thread, if any, that owns the guard of a page pinned for writing.
///
/// A guard is recorded from before it locks its page until the page is unlocked. A writer that
/// finds a page locked looks up the owner, so as not to wait for its own thread
/// ([`crate::write::lock_wait`]).
///
/// Verified by: the models of `models/locked_pages.rs`;
/// `crates/pagewell/tests/durability/guards.rs`.
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
