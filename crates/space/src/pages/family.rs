//! Anonymous families: from a page to the areas that may map it.
//!
//! A family is the pages that one area creates, each with an index (Linux: `anon_vma`). The area of
//! a fork may map them too: it is linked to its parent's families, and creates pages of a family of
//! its own. So only areas that are linked to a page's family map it, and the pages of a fork are
//! searched in the fork and its descendants only.
//!
//! A fork does not inherit families without pages. So the number of families of an area is bounded
//! by those with pages that it might map, after any number of generations.
//!
//! Invariants.
//! - F1: an area is linked before any entry of its space can name a page of the family, until none
//!   does. So a walk after the creation of an entry finds it. A concurrent walk may miss it, and
//!   detects that by the page's counts.
//! - F2: a link of a family keeps the directory of its space. A walk may load that of a torn-down
//!   space, and finds it empty.
//!
//! Locks. The lock of a family's tree is acquired with or without the structure lock of a space.
//! Entries are claimed with it held.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

use crate::pages::links::Links;
use crate::words::directory::Directory;

/// Pages that the areas of one space created, and all areas that may map them.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) links: Links<Directory>,
    nr_frames: AtomicUsize,
}

impl Family {
    pub(crate) fn new() -> Self {
        Self {
            links: Links::new(),
            nr_frames: AtomicUsize::new(0),
        }
    }

    pub(crate) fn add_frame(&self) {
        // ORDERING: Relaxed; see `has_frames`.
        self.nr_frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_frame(&self) {
        // ORDERING: Relaxed; see `has_frames`.
        self.nr_frames.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the caller, which prevents new entries in its space, may map any page of the family.
    pub(crate) fn has_frames(&self) -> bool {
        // ORDERING: Relaxed. A page that the caller's space maps was counted before it was mapped,
        // which happened before this, and is counted while it is mapped; so it is seen.
        self.nr_frames.load(Ordering::Relaxed) != 0
    }
}
