//! Owner of a page in its frame's metadata: the family, the index in it, and whether the page is
//! bound to its node. The word of the family is a strong reference (an `Arc`), stored
//! before the page is published, and dropped when the page's count is zero.

#![allow(unsafe_code)] // Strong references to families, kept as words.

use std::sync::Arc;

use crate::pages::links::Family;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) family: u64,
    pub(crate) index: u64,
    /// Compaction moves the page only within its node.
    pub(crate) is_bound: bool,
}

pub(crate) fn family_to_word(family: Arc<Family>) -> u64 {
    Arc::into_raw(family).expose_provenance() as u64
}

pub(crate) fn family_from_word(word: u64) -> Arc<Family> {
    let family = std::ptr::with_exposed_provenance::<Family>(word as usize);
    // SAFETY: the word is from `family_to_word`, in metadata that belongs to the page while its
    // count is not zero. The caller made it zero, and calls this once. For the old frame of a moved
    // page, which has the same word, this is not called (`let_go_moved`, `move_claimed`).
    unsafe { Arc::from_raw(family) }
}

/// Returns a new strong reference to the family of a page that the caller has isolated.
pub(crate) fn family_of_word(word: u64) -> Arc<Family> {
    let family = std::ptr::with_exposed_provenance::<Family>(word as usize);
    // SAFETY: as in `family_from_word`; an isolated page's metadata keeps its reference.
    unsafe { Arc::increment_strong_count(family) };
    // SAFETY: the strong count that was just added.
    unsafe { Arc::from_raw(family) }
}
