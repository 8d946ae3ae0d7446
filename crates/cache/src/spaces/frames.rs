//! Frames of a cache, for users that share them, such as memory spaces.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::supply::alloc::Allocator;
use crate::write::moves;

/// Frames of a cache. An allocation from its pool leaves fewer frames to the pages of files; the
/// cache's capacity limits both.
pub struct CacheFrames<S: RefScheme = LockBit> {
    files: Arc<Files<S>>,
}

impl<S: RefScheme> CacheFrames<S> {
    pub(crate) fn new(files: Arc<Files<S>>) -> Self {
        Self { files }
    }

    /// Returns the pool.
    pub fn pool(&self) -> &FramePool<S> {
        self.files.supply().pool()
    }

    /// Allocates a block of `order` at `place`, and evicts pages of files if none is free.
    ///
    /// `place` determines where pages are evicted:
    /// - For [`Place::Only`], on that node only, whatever is free elsewhere. A few more pages are
    ///   evicted along with the first.
    /// - For [`Place::Prefer`], a free block of the nearest node that has one is used first. If no
    ///   node has one, pages of the preferred node are evicted; if none of these can be, pages of
    ///   the others.
    ///
    /// Recently accessed pages are evicted last. Pages that are pinned or not clean are not
    /// evicted.
    ///
    /// Returns `None` if nothing can be evicted there. It waits while pages are being filled there,
    /// which can be evicted afterwards, and for some milliseconds if pages may be held for a short
    /// time. If there are no clean pages there, held or not, it returns `None` at once. If there
    /// are pages that are not clean, [`make_clean`](Self::make_clean) may help.
    pub fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.pool().nr_nodes()
        {
            return None;
        }
        Allocator(self.files.supply()).alloc_at(order, place).ok()
    }

    /// Has pages in frames of `place` cleaned, so that they can be evicted for a block of `order`,
    /// and waits for it: the threads of the cache write pages of files that are written back in the
    /// background to their backends, and make them durable. Returns whether any page was cleaned.
    /// If not, the next sync of each file returns the reason.
    ///
    /// The caller must hold no lock that a callback of the program may acquire: this waits for
    /// backends and callbacks that return, and up to a second for others. In a callback it does
    /// nothing.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        Cleaner(&self.files).make_clean_at(order, place)
    }

    /// Moves the page of a file in `frame` to `to`, a block of its size, whatever its state.
    /// Returns the old block.
    ///
    /// # Errors
    ///
    /// Returns `to` if it is a block of another pool, there is no page of that size in the frame,
    /// or the page is held or pinned for writing.
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
