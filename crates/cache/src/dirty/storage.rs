//! The known state of a file's storage, guarded by the writeback lock.

use crate::dirty::pace::Pace;

/// The known state of a file's storage.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether the storage has the file at the size that fills go by. If not, it failed, and has not told its size since.
    pub(crate) is_size_known: bool,
    /// Whether the storage has said that all it was given is durable, the size too.
    pub(crate) is_synced: bool,
    /// Whether a sync has failed since the last successful one. Then a reader of the storage may get bytes that the storage
    /// does not keep, whatever it says of later syncs.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last successful sync. Then the storage may have pages that are dirty, and not
    /// durable.
    pub(crate) may_have_dirty: bool,
    /// Of a file in whole pages: where the pages end that the storage was made long enough for since, if that is after those of the file.
    pub(crate) pages_end: u64,
    /// Of a file in whole pages: whether the bytes past the last one, which only tell the size, may be others than zeros. So they may in a
    /// file that was opened, until they were looked at.
    pub(crate) may_have_rest: bool,
    /// Of a file in whole pages: whether it was cut since the last successful sync ([`crate::writeback::size`], P2).
    pub(crate) is_cut: bool,
    /// How much it was given since the last sync.
    pub(crate) pace: Pace,
}

impl Storage {
    /// State of a file that was just opened.
    pub(crate) fn at_open(is_size_known: bool) -> Self {
        Self {
            is_size_known,
            // The opening may have created it, and its last writer may not have synced it.
            is_synced: false,
            is_doubtful: false,
            may_have_dirty: false,
            pages_end: 0,
            may_have_rest: false,
            is_cut: false,
            pace: Pace::default(),
        }
    }
}
