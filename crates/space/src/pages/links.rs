//! Links from pages, by their index, to the areas that may map them: an interval tree behind a
//! lock, acquired with or without the structure lock of a space. Its holder may claim entries.
//! Links of a family refer to a directory, those of a file to a space.

use std::ops::ControlFlow;

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::{Mutex, lock};

use crate::pages::tree::IntervalTree;

pub(crate) struct Link<T> {
    pub(crate) to: T,
    /// Address of the page with index `first`.
    pub(crate) addr: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl<T> Link<T> {
    pub(crate) fn addr_of(&self, index: u64) -> u64 {
        self.addr + (index - self.first) * FRAME_BYTES as u64
    }
}

pub(crate) struct Links<T>(Mutex<IntervalTree<Link<T>>>);

impl<T> Default for Links<T> {
    fn default() -> Self {
        Self(Mutex::new(IntervalTree::new()))
    }
}

impl<T> Links<T> {
    pub(crate) fn link(&self, id: u64, link: Link<T>) {
        lock(&self.0).insert(link.first, link.end, id, link);
    }

    pub(crate) fn unlink(&self, id: u64, first: u64) {
        let link = lock(&self.0).remove(first, id);
        // Dropped after the lock is released: the last handle of a directory unmaps its memory.
        drop(link);
    }

    /// Calls `visit`, with the lock held, for each link that overlaps `first..end`, by first index
    /// and then age, oldest first (C3 of [`crate::areas::cut`]), until `Break`.
    pub(crate) fn walk<B>(
        &self,
        first: u64,
        end: u64,
        visit: impl FnMut(&Link<T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        lock(&self.0).overlapping(first, end, visit)
    }
}
