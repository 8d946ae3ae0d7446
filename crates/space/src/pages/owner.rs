//! Whose a page is: what its frame's record says of its family, its index there, and where it may be moved.
//!
//! The record has one share of the family (an `Arc`) as a bare word, from before the page is published until its count is zero.

#![allow(unsafe_code)] // Shares of a family that are kept as words.

use std::sync::Arc;

use crate::pages::family::Family;

/// Where a page may be moved by those whom nobody has asked to move it: compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Anywhere.
    Anywhere,
    /// Within the node that it is on.
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

/// Whose a page is, as its record says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// The word of its family.
    pub(crate) family: u64,
    /// Its index there.
    pub(crate) index: u64,
    pub(crate) binding: Binding,
}

/// Keeps a family in the record of a frame of it.
pub(crate) fn family_to_word(family: Arc<Family>) -> u64 {
    Arc::into_raw(family).expose_provenance() as u64
}

/// Takes the family out of the record of a page: for whoever has brought the page's count down to zero.
pub(crate) fn family_from_word(word: u64) -> Arc<Family> {
    let family = std::ptr::with_exposed_provenance::<Family>(word as usize);
    // SAFETY: the word is from `family_to_word`, put into the record before the page was published; the record is
    // the page's while its count is not zero, and the caller, who made it zero, calls this once. Of a page that was
    // moved the word is in two records: the one of the frame that it left is made zero by who migrates, who does not
    // call this for it (`let_go_moved`).
    unsafe { Arc::from_raw(family) }
}

/// The family of a page whose count cannot become zero meanwhile: it is isolated by the caller.
pub(crate) fn family_of_word(word: u64) -> Arc<Family> {
    let family = std::ptr::with_exposed_provenance::<Family>(word as usize);
    // SAFETY: as in `family_from_word`, but that the record keeps its own: the count is not zero while this runs.
    unsafe { Arc::increment_strong_count(family) };
    // SAFETY: the strong count that was just added.
    unsafe { Arc::from_raw(family) }
}
