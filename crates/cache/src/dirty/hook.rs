//! Which thread has a lock, and whether this one is in a hook of the program.

use std::cell::Cell;

use pagewell_sync::atomic::{AtomicUsize, Ordering};

use crate::base::page_hooks::is_in_page_hook;
use crate::dirty::order::HookEntered;

thread_local! {
    /// How many hooks this thread is in. The variable has no destructor, so it lives as long as the thread: the destructors
    /// of the thread's other variables may close files.
    static NR_HOOKS: Cell<usize> = const { Cell::new(0) };
}

/// The thread that has a lock ([`this_thread`]), as far as that thread itself wants to know; 0 if no thread has it.
#[derive(Debug, Default)]
pub(crate) struct ThreadMark(AtomicUsize);

/// This thread, by an address that no other living thread has; never 0.
pub(crate) fn this_thread() -> usize {
    NR_HOOKS.with(|nr| std::ptr::from_ref(nr).addr())
}

impl ThreadMark {
    /// This thread has taken the lock.
    pub(crate) fn set(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(this_thread(), Ordering::Relaxed);
    }

    /// This thread is about to release the lock.
    pub(crate) fn clear(&self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether this thread has the lock.
    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: Relaxed; only the thread itself stores the value that names it. By coherence it finds that value while it has
        // the lock, and cannot find it once it has cleared it. A thread with the address of one that has ended comes after it.
        self.0.load(Ordering::Relaxed) == this_thread()
    }
}

/// This thread is in a hook of the program. It holds the writeback lock of a file, so its writes to other files
/// must not make it write that file back.
pub(crate) struct InHook<'w> {
    mark: &'w ThreadMark,
    _entered: HookEntered,
}

impl<'w> InHook<'w> {
    /// This thread enters the hook of the file that has `mark`. It holds the file's writeback lock, so one thread at a time is
    /// in the hook.
    pub(crate) fn enter(mark: &'w ThreadMark) -> Self {
        NR_HOOKS.set(NR_HOOKS.get() + 1);
        mark.set();
        Self {
            mark,
            _entered: HookEntered::now(),
        }
    }

    /// Whether this thread is in a hook, of whatever file and kind.
    pub(crate) fn is_so() -> bool {
        NR_HOOKS.get() != 0 || is_in_page_hook()
    }

    /// Whether this thread is in a hook of the file that has `mark`: then it holds the file's writeback lock.
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
