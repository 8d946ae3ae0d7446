//! Anonymous families: from a page to the areas that may map it.
//!
//! What. The pages that an area makes are of the area's own family, and have an index there. A fork's area may map
//! them too, so it is linked to that family as well, and to those of the ancestors before; the pages that it makes
//! itself are of a family of its own. So the areas that may map a page are those of one family, and the pages of a
//! fork are looked for in the fork and its descendants only. A family keeps its areas in an interval tree by index.
//!
//! A family whose pages are all gone is not passed on to forks, so however many generations there were, an area is
//! linked to as many families as have pages that it might map.
//!
//! Invariants.
//! - F1: an area is linked before any entry of its space can name a page of the family, and stays linked until none
//!   does. So whoever walks the family after an entry was made finds the entry; whoever walks meanwhile may miss it, and
//!   finds by the page's counts that there is more to find.
//! - F2: a link keeps its space's memory, so a walk may look at the directory of a space that is being torn down; it
//!   finds it empty.
//!
//! Locks. The lock of a family's tree is taken with the structure lock of a space held, or with none; entries are
//! claimed with it held.

use std::ops::ControlFlow;
use std::sync::Arc;

use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::mm::mm::Inner;
use crate::pages::tree::IntervalTree;

/// Where pages of a family may be mapped.
pub(crate) struct Link<S: RefScheme> {
    pub(crate) space: Arc<Inner<S>>,
    /// The address of the page with the index `first`.
    pub(crate) addr: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl<S: RefScheme> Link<S> {
    /// The address of the page with this index, which is in the link.
    pub(crate) fn addr_of(&self, index: u64) -> u64 {
        self.addr + (index - self.first) * FRAME_BYTES as u64
    }
}

/// The pages that the areas of one space made, and all areas that may map them.
pub(crate) struct Family<S: RefScheme> {
    links: Mutex<IntervalTree<Link<S>>>,
    /// How many frames are of this family.
    nr_frames: AtomicUsize,
}

impl<S: RefScheme> Family<S> {
    pub(crate) fn new() -> Self {
        Self {
            links: Mutex::new(IntervalTree::new()),
            nr_frames: AtomicUsize::new(0),
        }
    }

    /// Links an area; `id` is its own.
    pub(crate) fn link(&self, id: u64, link: Link<S>) {
        lock(&self.links).insert(link.first, link.end, id, link);
    }

    /// Takes the link of the area `id` out, whose first index is `first`.
    pub(crate) fn unlink(&self, id: u64, first: u64) {
        let link = lock(&self.links).remove(first, id);
        // Outside of the lock: it may be the last handle of the space's memory.
        drop(link);
    }

    /// Calls `visit` with every link that has one of the indices `first..end`, in the order of their first index and
    /// then of their age, the oldest first, until it breaks. With the family's lock held. Cuts of files go by the order
    /// (C3 of [`crate::areas::cut`]); migrations do not.
    pub(crate) fn walk<B>(
        &self,
        first: u64,
        end: u64,
        visit: impl FnMut(&Link<S>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        lock(&self.links).overlapping(first, end, visit)
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

impl<S: RefScheme> std::fmt::Debug for Family<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family")
            .field("nr_links", &lock(&self.links).len())
            .finish_non_exhaustive()
    }
}
