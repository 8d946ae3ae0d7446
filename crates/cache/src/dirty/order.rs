//! Lock order between files, checked in debug builds.
//!
//! A thread that holds the size lock or the writeback lock of one file waits for such a lock of
//! another file only in code of the program that it has entered since (`docs/LOCKING.md`).
//! Otherwise a backend or callback that blocks could stop another file, and two threads could
//! deadlock.

use pagewell_sync::ledger::{self, Resource};

/// Record of a file lock that this thread holds or is about to acquire.
#[derive(Debug)]
#[must_use]
pub(crate) struct InOrder(());

impl InOrder {
    /// Records that the thread is about to wait for a lock of the file that `file` belongs to. In
    /// debug builds, panics if it holds a lock of another file, which is a defect of this crate.
    #[track_caller]
    pub(crate) fn before_lock<T>(file: &T) -> Self {
        ledger::acquired_lock_of(std::ptr::from_ref(file).addr());
        Self(())
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        ledger::released(Resource::FileLock, 1);
    }
}
