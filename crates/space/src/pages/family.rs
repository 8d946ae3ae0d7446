//! Anonymous families: from a page to the areas that may map it.
//!
//! What. A family is the pages that one area makes, each with an index (Linux: `anon_vma`). A fork's area may map them too: it is
//! linked to its parent's families, and makes pages of a family of its own. So a page is mapped by areas that are linked to its
//! family, and by no others; the pages of a fork are looked for in the fork and its descendants only.
//!
//! A family without pages is not passed on to forks. So an area is linked to no more families than have pages that it might map,
//! however many generations there were.
//!
//! Invariants.
//! - F1: an area is linked before any entry of its space can name a page of the family, and stays linked until none
//!   does. So whoever walks the family after an entry was made finds the entry; whoever walks meanwhile may miss it, and
//!   finds by the page's counts that there is more to find.
//! - F2: a link of a family keeps its space's directory, so a walk may look at that of a space that is gone; it finds it
//!   empty.
//!
//! Locks. The lock of a family's tree is taken with the structure lock of a space held, or with none; entries are
//! claimed with it held.

use pagewell_sync::atomic::{AtomicUsize, Ordering};

use crate::pages::links::Links;
use crate::words::directory::Directory;

/// The pages that the areas of one space made, and all areas that may map them.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) links: Links<Directory>,
    /// How many frames are of this family.
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

    /// Whether any page of the family may be mapped by the caller, who keeps entries of its space from being made.
    pub(crate) fn has_frames(&self) -> bool {
        // ORDERING: Relaxed. A page that the caller's space maps was counted before it was mapped, which happened before
        // this, and is not uncounted while it is mapped; so it is seen. Others do not matter.
        self.nr_frames.load(Ordering::Relaxed) != 0
    }
}
