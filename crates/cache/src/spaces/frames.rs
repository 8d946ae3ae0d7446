//! Frames of a cache, for users that share them, such as memory spaces.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::supply::alloc::Allocator;
use crate::write::moves;

/// Frames of a cache. The cache's capacity limits their allocations and pages of files together.
pub struct CacheFrames {
    files: Arc<Files>,
}

impl CacheFrames {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        Self { files }
    }

    /// Returns the pool.
    pub fn pool(&self) -> &FramePool {
        self.files.supply().pool()
    }

    /// Allocates a block of `order` at `place`, and evicts pages of files if none is free:
    /// - For [`Place::Only`], pages of only that node, a few at a time, if no frame there is free.
    /// - For [`Place::Prefer`], a free block of the nearest node is used first. If no node has one,
    ///   pages are evicted on the preferred node, then on the others.
    ///
    /// Recently accessed pages are evicted last, pinned ones and those that are not clean never.
    /// Waits for pages that are being filled at `place`. Retries for some milliseconds if the
    /// references that prevent an eviction may end within a few steps. Returns `None` if nothing
    /// can be evicted: at once if no page of `place` is clean or being filled.
    /// [`make_clean`](Self::make_clean) may then help.
    pub fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.pool().nr_nodes()
        {
            return None;
        }
        Allocator(self.files.supply()).alloc_at(order, place).ok()
    }

    /// Makes the threads of the cache write back and sync files with background writeback that have
    /// pages in frames of `place`, so that these can be evicted for a block of `order`. Returns
    /// `true` if any page was cleaned. The next sync of a file returns the error of its writeback.
    ///
    /// The caller must hold no lock that a callback of the program may acquire. The call waits for
    /// calls of backends and callbacks as long as these return, and up to a second for a call that
    /// does not return. In a callback, a page codec or a fork, it does nothing and returns `false`.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        Cleaner(&self.files).make_clean_at(order, place)
    }

    /// Moves the page of a file in `frame` to `to`, even if it is not clean. Returns the old block.
    ///
    /// # Errors
    ///
    /// Returns `to` if it is of another pool or not of the page's size, if `frame` has no page, or
    /// if the page is claimed, pinned for writing, or otherwise referenced.
    pub fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f>,
    ) -> Result<UniqueFrame<'f>, UniqueFrame<'f>> {
        moves::move_out_of(self.files.supply(), frame, to)
    }
}

impl fmt::Debug for CacheFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFrames")
            .field("pool", self.pool())
            .finish()
    }
}
