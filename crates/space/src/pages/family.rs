//! Anonymous families: the way from a page to the areas that may map it.
//!
//! A family is the set of pages that one area creates, each with an index (Linux: `anon_vma`). A
//! forked area may map these pages, too: it is linked to its parent's families, but creates pages
//! in its own. A walk for a page that a fork has created visits only the fork and its descendants.
//! Families without pages are not inherited, and so do not accumulate.
//!
//! - F1: an area is linked from before an entry of its space can name a page of the family until no
//!   entry does. So a walk that begins after an entry was created finds the entry. A concurrent
//!   walk may miss it, and detects this by the page's counts.
//! - F2: a link of a family keeps the directory of its space alive. A walk may load the directory
//!   of a space that was torn down, and finds it empty.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

use crate::pages::links::Links;
use crate::words::directory::Directory;

#[derive(Default)]
pub(crate) struct Family {
    pub(crate) links: Links<Directory>,
    nr_frames: AtomicUsize,
}

impl Family {
    pub(crate) fn add_frame(&self) {
        // ORDERING: Relaxed; see `has_frames`.
        self.nr_frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_frame(&self) {
        // ORDERING: Relaxed; see `has_frames`.
        self.nr_frames.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns `true` if the caller's space may map a page of the family. The caller must prevent
    /// new entries in this space.
    pub(crate) fn has_frames(&self) -> bool {
        // ORDERING: Relaxed. A page that the caller's space maps was counted before it was mapped,
        // which happened before this load, and stays counted while it is mapped.
        self.nr_frames.load(Ordering::Relaxed) != 0
    }
}
