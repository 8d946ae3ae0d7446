//! Known state of a file's backend, guarded by the writeback lock.

use pagewell_policy::pace::Pace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing has been written to the backend since the opening, which may have created the file.
    /// An earlier writer may not have synced it.
    AsOpened,
    /// Something was written to the backend, or its size set, since the last sync or the opening.
    Changed,
    /// The backend has reported everything written to it as durable, including the size.
    Durable,
}

#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether the backend is known to have the size that fills use. `false` during a write or a
    /// change of size, after a failed one until the size is queried or set, and while the backend
    /// of a file in whole pages is extended for a flush ([`crate::writeback::size`], P1).
    pub(crate) is_size_known: bool,
    pub(crate) durability: Durability,
    /// Whether a sync has failed since the last successful sync of the whole file. If so, the
    /// backend may return bytes that it will not keep, whatever it reports later.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last successful sync, so that pages may be dirty.
    pub(crate) may_have_dirty: bool,
    /// For a file in whole pages: end to which the backend was extended, if past the file's pages.
    pub(crate) pages_end: u64,
    /// For a file in whole pages: whether the bytes past the last page, which only encode the size,
    /// may differ from zeros. They are not checked when the file is opened.
    pub(crate) may_have_rest: bool,
    /// For a file in whole pages: whether it was truncated since the last successful sync
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
