//! Links from pages, by their index, to the areas that may map them: an interval tree behind a
//! lock, acquired with or without the structure lock of a space. Its holder may claim entries.
//! Links of a family refer to a directory, those of a file to a space.
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

use std::ops::ControlFlow;

use pagewell_frame::FRAME_BYTES;
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use crate::pages::tree::IntervalTree;
use crate::words::pmd::Directory;

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
