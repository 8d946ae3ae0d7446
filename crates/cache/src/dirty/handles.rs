//! Counts of the handles of a file open for writing, in one word. Areas that map the file count as
//! handles. Writers are the handles that may write, and opens for writing that have not created a
//! handle yet. All writers may come from one exclusive open.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 31 | number of handles |
//! | 32 to 62 | number of writers |
//! | 63 | the writers come from one exclusive open; without a writer, the bit has no meaning |
//!
//! No count overflows: every handle, area and open has a strong reference to the file, and fewer
//! than 2^31 of these exist ([`Users::add_share`](crate::mapping::users::Users::add_share)).
//!
//! Verified by `loom_exclusive_open_vs_open`, `loom_exclusive_open_vs_remove`,
//! `loom_remove_vs_remove`.

use pagewell_sync::atomic::{AtomicU64, Ordering};

const HANDLE: u64 = 1;
const WRITER: u64 = 1 << 32;
const EXCLUSIVE: u64 = 1 << 63;

/// Rights of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    Read,
    Write,
}

#[derive(Debug, Default)]
pub(crate) struct Handles(AtomicU64);

fn one(access: Handle) -> u64 {
    match access {
        Handle::Read => HANDLE,
        Handle::Write => HANDLE + WRITER,
    }
}

fn nr_handles(word: u64) -> u64 {
    word % WRITER
}

fn nr_writers(word: u64) -> u64 {
    (word & !EXCLUSIVE) / WRITER
}

impl Handles {
    /// Counts an open for writing. Returns `false` if it is excluded or would exclude a writer.
    #[must_use]
    pub(crate) fn admit_writer(&self, is_exclusive: bool) -> bool {
        let admitted = |word: u64| match (nr_writers(word), is_exclusive) {
            (0, true) => Some((word | EXCLUSIVE) + WRITER),
            (0, false) => Some((word & !EXCLUSIVE) + WRITER),
            (_, true) => None,
            (_, false) => (word & EXCLUSIVE == 0).then_some(word + WRITER),
        };
        // ORDERING: Acquire; pairs with the release in `remove` and `remove_writer`: the writes of
        // removed writers happen before an exclusive open returns. All updates are
        // read-modify-writes, so those in between continue the release sequence.
        self.0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, admitted)
            .is_ok()
    }

    /// Removes an open for writing whose handle is closed, or was not created.
    pub(crate) fn remove_writer(&self) {
        // ORDERING: Release, as in `remove`.
        let before = self.0.fetch_sub(WRITER, Ordering::Release);
        debug_assert_ne!(nr_writers(before), 0, "a writer that is not counted");
    }

    /// Counts a handle that is for reading or was admitted. Returns `true` if it is the only one.
    pub(crate) fn add_admitted(&self) -> bool {
        self.add(Handle::Read)
    }

    /// Counts a handle. One for writing comes from another writer, so it needs no admission.
    /// Returns `true` if it is the only one.
    pub(crate) fn add(&self, access: Handle) -> bool {
        // ORDERING: Relaxed; the thread has a strong reference to the file, and publishes nothing.
        nr_handles(self.0.fetch_add(one(access), Ordering::Relaxed)) == 0
    }

    /// Removes a handle, but not its count as a writer. Returns `true` if it was the last one.
    #[must_use]
    pub(crate) fn remove_keeping_writer(&self) -> bool {
        self.remove(Handle::Read)
    }

    /// Removes a handle. Returns `true` if it was the last one.
    #[must_use]
    pub(crate) fn remove(&self, access: Handle) -> bool {
        // ORDERING: AcqRel; the writes of removed handles happen before the last removal returns:
        // its thread makes them durable. The release pairs with `admit_writer` too.
        let before = self.0.fetch_sub(one(access), Ordering::AcqRel);
        debug_assert!(
            nr_handles(before) != 0 && (access == Handle::Read || nr_writers(before) != 0),
            "a handle that is not counted"
        );
        nr_handles(before) == 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove`.
        nr_handles(self.0.load(Ordering::Acquire)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_open_is_the_only_one() {
        let handles = Handles::default();
        assert!(handles.admit_writer(true));
        assert!(!handles.admit_writer(true));
        assert!(!handles.admit_writer(false));
        assert!(handles.add_admitted());
        assert!(!handles.add(Handle::Write));
        assert!(!handles.remove(Handle::Write));
        assert!(!handles.admit_writer(false));
        assert!(handles.remove(Handle::Write));
        assert!(handles.admit_writer(false));
        assert!(handles.admit_writer(false));
        assert!(!handles.admit_writer(true));
        handles.remove_writer();
        assert!(!handles.admit_writer(true));
        handles.remove_writer();
        assert!(handles.admit_writer(true));
    }

    #[test]
    fn handles_for_reading_neither_exclude_nor_are_excluded() {
        let handles = Handles::default();
        assert!(handles.is_empty());
        assert!(handles.admit_writer(true));
        assert!(handles.is_empty());
        assert!(handles.add_admitted());
        assert!(!handles.add(Handle::Read));
        // A close that fails: the writer stays counted.
        assert!(!handles.remove_keeping_writer());
        assert!(!handles.admit_writer(false));
        assert!(!handles.add_admitted());
        assert!(!handles.remove(Handle::Write));
        assert!(handles.admit_writer(true));
        handles.remove_writer();
        assert!(handles.remove(Handle::Read));
        assert!(handles.is_empty());
    }
}
