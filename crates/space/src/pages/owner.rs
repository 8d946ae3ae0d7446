//! Owner of a page in its frame's metadata: the family, the index in the family, and the nodes to
//! which compaction may move the page. One word of the metadata is a strong reference to the family
//! (an `Arc`). It is stored before the page is published, and dropped when the page's count is
//! zero.

#![allow(unsafe_code)] // Strong references to families, kept as words.

use std::sync::Arc;

use crate::pages::family::Family;

/// Nodes to which compaction may move a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Anywhere,
    Node,
}

impl Binding {
    pub(crate) const fn to_word(self) -> u64 {
        match self {
            Self::Anywhere => 0,
            Self::Node => 1,
        }
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Anywhere,
            _ => Self::Node,
        }
    }
}

/// Owner of a page, as in its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) family: u64,
    pub(crate) index: u64,
    pub(crate) binding: Binding,
}

/// Converts a strong reference to a family to a word of the metadata.
pub(crate) fn family_to_word(family: Arc<Family>) -> u64 {
    Arc::into_raw(family).expose_provenance() as u64
}

/// Converts the word of the metadata back to the strong reference. The caller has made the page's
/// count zero, and calls this once.
pub(crate) fn family_from_word(word: u64) -> Arc<Family> {
    let family = std::ptr::with_exposed_provenance::<Family>(word as usize);
    // SAFETY: the word is from `family_to_word`, stored in the metadata before the page was
    // published. The metadata belongs to the page while its count is not zero, and the caller,
    // which made it zero, calls this once. The word of a moved page is in the metadata of two
    // frames: the moving thread makes the count of the old frame zero, and does not call this for
    // that frame (`let_go_moved`, `move_claimed`).
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
