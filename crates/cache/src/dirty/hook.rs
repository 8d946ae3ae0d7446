//! Which thread has a lock, and whether this one is in a hook of the program.

use std::cell::Cell;

use pagewell_sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// In how many hooks this thread is. It has no destructor, so it is there as long as the thread is: files may be closed
    /// by the destructors of the thread's other variables.
    static NR_HOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Which thread has a lock, as far as that thread wants to know it: by an address that no other thread has which lives; 0 if
/// there is none.
#[derive(Debug, Default)]
pub(crate) struct ThreadMark(AtomicUsize);

impl ThreadMark {
    fn this_thread() -> usize {
        NR_HOOKS.with(|nr| std::ptr::from_ref(nr).addr())
    }

    /// This thread has taken the lock.
    pub(crate) fn set(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(Self::this_thread(), Ordering::Relaxed);
    }

    /// This thread is about to let go of the lock.
    pub(crate) fn clear(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether this thread has the lock.
    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: Relaxed; nobody but a thread itself stores what tells it, so by coherence it finds that if it has the
        // lock, and cannot once it has cleared it. A thread that has got the address of one that has ended comes after it.
        self.0.load(Ordering::Relaxed) == Self::this_thread()
    }
}

/// This thread is in a hook of the program: it holds the writeback lock of a file, so what it writes to other files
/// must not make it write back that one.
pub(crate) struct InHook<'w>(&'w ThreadMark);

impl<'w> InHook<'w> {
    /// This thread enters the hook of the file that `mark` is of, whose writeback lock it holds: so one thread at a time is in
    /// its hook.
    pub(crate) fn enter(mark: &'w ThreadMark) -> Self {
        NR_HOOKS.set(NR_HOOKS.get() + 1);
        mark.set();
        Self(mark)
    }

    pub(crate) fn is_so() -> bool {
        NR_HOOKS.get() != 0
    }

    /// Whether this thread is in a hook of the file that `mark` is of: then it holds the file's writeback lock.
    pub(crate) fn is_of(mark: &ThreadMark) -> bool {
        Self::is_so() && mark.is_set()
    }
}

impl Drop for InHook<'_> {
    fn drop(&mut self) {
        self.0.clear();
        NR_HOOKS.set(NR_HOOKS.get() - 1);
    }
}
