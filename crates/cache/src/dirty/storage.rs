//! What is known of a file's storage, and guarded by the writeback lock.

use crate::base::page::PageNr;

/// What is known of a file's storage.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Whether it has the file at the size that fills go by. If not, it failed, and did not tell its size since.
    pub(crate) is_size_known: bool,
    /// Whether it has said that all it was given is durable, the size too.
    pub(crate) is_synced: bool,
    /// Whether a sync has failed since the last one that did not. Then what the storage gives to who reads what it
    /// was given need not be what it keeps, whatever it says of later syncs.
    pub(crate) is_doubtful: bool,
    /// Whether a write has failed since the last sync that did not: then it may have pages that are dirty, and not
    /// durable.
    pub(crate) may_have_dirty: bool,
    /// Whether a group was ended by a barrier and is not known to be durable: G2 of [`crate::dirty::groups`].
    pub(crate) is_split: bool,
    /// A dirty page that was passed over since the last sync began, because it was held then.
    pub(crate) passed_over: Option<PageNr>,
}

impl Storage {
    /// Of a file that has just been opened.
    pub(crate) fn in_step() -> Self {
        Self {
            is_size_known: true,
            // Opening may have emptied or made it, and who wrote it last may not have synced it.
            is_synced: false,
            is_doubtful: false,
            may_have_dirty: false,
            is_split: false,
            passed_over: None,
        }
    }
}
