//! Known state of a file's backend, guarded by the writeback lock.

use crate::dirty::pace::Pace;

/// What is known to be durable of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As at the open, and unknown: the open may have created the file, and its last writer may not
    /// have synced it.
    AsOpened,
    /// Something was written to the backend since, or its size was set.
    Changed,
    /// The backend has reported everything written to it as durable, including the size.
    Durable,
}

#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether the backend's size is the one that fills use. If not, a call has failed and the
    /// backend has not returned its size since; or writes are in progress; or, in a file in whole
    /// pages, the end has not been set yet.
    pub(crate) is_size_known: bool,
    pub(crate) durability: Durability,
    /// Whether a sync has failed since the last successful sync of the whole file. If so, a reader
    /// of the backend may get bytes that it does not keep, whatever it reports for later syncs.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last successful sync. If so, the backend may have pages
    /// that are dirty and not durable.
    pub(crate) may_have_dirty: bool,
    /// Of a file in whole pages: end of the pages for which the backend was extended since, if that
    /// is after the pages of the file.
    pub(crate) pages_end: u64,
    /// Of a file in whole pages: whether the bytes past the last page, which only encode the size,
    /// may be other than zeros. They may in a file that was opened, until they have been read.
    pub(crate) may_have_rest: bool,
    /// Of a file in whole pages: whether it was truncated since the last successful sync
    /// ([`crate::writeback::size`], P2).
    pub(crate) is_cut: bool,
    pub(crate) pace: Pace,
}

impl Storage {
    pub(crate) fn at_open(is_size_known: bool) -> Self {
        Self {
            is_size_known,
            durability: Durability::AsOpened,
            is_doubtful: false,
            may_have_dirty: false,
            pages_end: 0,
            may_have_rest: false,
            is_cut: false,
            pace: Pace::default(),
        }
    }
}
