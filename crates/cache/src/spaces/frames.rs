//! The frames of a cache, for users that share them, such as memory spaces.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::supply::alloc::Allocator;
use crate::write::moves;

/// The frames of a cache. An allocation from its pool leaves fewer frames to the pages of files; the cache's capacity bounds
/// both.
pub struct CacheFrames<S: RefScheme = LockBit> {
    files: Arc<Files<S>>,
}

impl<S: RefScheme> CacheFrames<S> {
    pub(crate) fn new(files: Arc<Files<S>>) -> Self {
        Self { files }
    }

    /// The pool.
    pub fn pool(&self) -> &FramePool<S> {
        self.files.supply().pool()
    }

    /// Makes room: returns a block of `order` at `place`, and evicts pages of files for it if none is free.
    ///
    /// The place says where pages are evicted. For [`Place::Only`] it is that node alone, whatever is free elsewhere. For
    /// [`Place::Prefer`] a free block of any node comes first, the nearest one; if there is none, pages of that node are
    /// evicted; if none of these can be, pages of the others. For a node alone a few more pages are evicted along with the
    /// first. Pages that were referenced lately go last. Pinned or unclean pages do not go at all.
    ///
    /// None when nothing can be evicted there. It waits while pages are on their way into frames there, which can be evicted then,
    /// and for some milliseconds if pages may be held for a moment. If there are no clean pages there, held or not, none at
    /// once. If there are unclean ones, [`make_clean`](Self::make_clean) may help then.
    pub fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.pool().nr_nodes()
        {
            return None;
        }
        Allocator(self.files.supply()).alloc_at(order, place).ok()
    }

    /// Has pages in frames of `place` made clean, so that they can be evicted for a block of `order`, and waits for it: pages of
    /// files that are written back in the background are given to their storages, and made durable, by the threads of the cache.
    /// Returns whether any page was made clean. If not, the next sync of each file tells why.
    ///
    /// The caller must hold no lock that a hook of the program may want: it waits for storages and hooks that return, and for
    /// others up to a second. Called by a hook it does nothing.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        Cleaner(&self.files).make_clean_at(order, place)
    }

    /// Moves the page of a file in `frame` to `to`, a block of its size, whatever its state; returns the old
    /// block.
    ///
    /// # Errors
    ///
    /// `to`, when it is a block of another pool, there is no page of that size in the frame, or the page is held or pinned to be
    /// changed.
    pub fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        moves::move_out_of(self.files.supply(), frame, to)
    }
}

impl<S: RefScheme> fmt::Debug for CacheFrames<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFrames")
            .field("pool", self.pool())
            .finish()
    }
}
