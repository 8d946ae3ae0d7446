//! Links: from pages, by their index, to the areas that may show them.
//!
//! An interval tree by index, behind a lock. What a link leads to is up to who makes it: a family's lead to the directory of a
//! space ([`crate::pages::family`]), those of a file to the space ([`crate::areas::maps`]).
//!
//! Locks. The lock is taken with the structure lock of a space held, or with none; entries are claimed with it held.

use std::fmt;
use std::ops::ControlFlow;

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::{Mutex, lock};

use crate::pages::tree::IntervalTree;

/// Where some pages may be mapped.
pub(crate) struct Link<T> {
    pub(crate) to: T,
    /// The address of the page with the index `first`.
    pub(crate) addr: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl<T> Link<T> {
    /// The address of the page with this index, which is in the link.
    pub(crate) fn addr_of(&self, index: u64) -> u64 {
        self.addr + (index - self.first) * FRAME_BYTES as u64
    }
}

/// All areas that may show some pages.
pub(crate) struct Links<T>(Mutex<IntervalTree<Link<T>>>);

impl<T> Links<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(IntervalTree::new()))
    }

    /// Links an area; `id` is its own.
    pub(crate) fn link(&self, id: u64, link: Link<T>) {
        lock(&self.0).insert(link.first, link.end, id, link);
    }

    /// Takes the link of the area `id` out, whose first index is `first`.
    pub(crate) fn unlink(&self, id: u64, first: u64) {
        let link = lock(&self.0).remove(first, id);
        // Outside of the lock: it may be the last handle of the space's memory.
        drop(link);
    }

    /// Calls `visit` with every link that has one of the indices `first..end`, in the order of their first index and
    /// then of their age, the oldest first, until it breaks. With the lock held. Cuts of files go by the order
    /// (C3 of [`crate::areas::cut`]); migrations do not.
    pub(crate) fn walk<B>(
        &self,
        first: u64,
        end: u64,
        visit: impl FnMut(&Link<T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        lock(&self.0).overlapping(first, end, visit)
    }
}

impl<T> fmt::Debug for Links<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links")
            .field("nr", &lock(&self.0).len())
            .finish_non_exhaustive()
    }
}
