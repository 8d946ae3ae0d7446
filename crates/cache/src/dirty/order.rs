//! Lock order between files, checked in debug builds.
//!
//! A thread that holds the size lock or the writeback lock of one file waits for such a lock of
//! another file only in a callback that it has entered since (`docs/LOCKING.md`). Otherwise a
//! backend or callback that blocks could stop another file, and two threads could deadlock.

use pagewell_sync::ledger::{self, Resource};

/// Record of a file lock that this thread holds or is about to acquire.
#[derive(Debug)]
#[must_use]
pub(crate) struct InOrder(());

#[derive(Debug)]
#[must_use]
pub(super) struct HookEntered(());

#[cfg(all(debug_assertions, not(loom)))]
mod notes {
    use std::cell::RefCell;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Note {
        /// A lock of the file whose state is at this address.
        Lock(usize),
        Hook,
    }

    thread_local! {
        static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
    }

    /// Adds `note`. If it is a lock, returns another file whose lock this thread has acquired since
    /// it entered its last callback.
    pub(super) fn add(note: Note) -> Option<usize> {
        // `NOTES` may already be destroyed if the thread is ending. The check is then skipped.
        let other = NOTES.try_with(|notes| {
            let mut notes = notes.borrow_mut();
            let since_hook = notes.iter().rev().take_while(|note| **note != Note::Hook);
            let other = since_hook
                .filter_map(|had| match (had, note) {
                    (Note::Lock(had), Note::Lock(file)) if *had != file => Some(*had),
                    _ => None,
                })
                .next();
            notes.push(note);
            other
        });
        other.ok().flatten()
    }

    pub(super) fn take_back() {
        let _ = NOTES.try_with(|notes| notes.borrow_mut().pop());
    }
}

impl InOrder {
    /// Records that the thread is about to wait for a lock of the file that `file` belongs to. In
    /// debug builds, panics if it holds a lock of another file, which is a defect of this crate.
    #[track_caller]
    pub(crate) fn before_lock<T>(file: &T) -> Self {
        ledger::acquired(Resource::FileLock, 1);
        #[cfg(all(debug_assertions, not(loom)))]
        if notes::add(notes::Note::Lock(std::ptr::from_ref(file).addr())).is_some() {
            let order = Self(());
            drop(order);
            panic!("a thread that holds a lock of one file waits for a lock of another file");
        }
        let _ = file;
        Self(())
    }
}

impl HookEntered {
    pub(super) fn now() -> Self {
        #[cfg(all(debug_assertions, not(loom)))]
        notes::add(notes::Note::Hook);
        Self(())
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        ledger::released(Resource::FileLock, 1);
        #[cfg(all(debug_assertions, not(loom)))]
        notes::take_back();
    }
}

impl Drop for HookEntered {
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(loom)))]
        notes::take_back();
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn locks_of_one_file_at_a_time_and_of_another_in_a_hook() {
        let (one, two) = ([0_u8; 2], [0_u8; 2]);
        let of_one = InOrder::before_lock(&one);
        let also_of_one = InOrder::before_lock(&one);
        let hook = HookEntered::now();
        drop(InOrder::before_lock(&two));
        drop(hook);
        catch_unwind(|| drop(InOrder::before_lock(&two))).expect_err("two files at a time");
        drop(also_of_one);
        drop(of_one);
        drop(InOrder::before_lock(&two));
    }
}
