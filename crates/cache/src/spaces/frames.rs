//! Frames of a cache, for users that share them, such as memory spaces.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::supply::alloc::Allocator;
use crate::write::moves;

/// Frames of a cache. An allocation from the cache's pool leaves fewer frames for pages of files.
/// The cache's capacity limits both together.
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
    /// - For [`Place::Only`], pages are evicted on that node only, even if frames are free
    ///   elsewhere. A few more pages are evicted along with the first one.
    /// - For [`Place::Prefer`], a free block of the nearest node that has one is used first. If no
    ///   node has one, pages of the preferred node are evicted. If none of these can be evicted,
    ///   pages of the other nodes are evicted.
    ///
    /// Recently accessed pages are evicted last. Pages that are pinned or not clean are not
    /// evicted.
    ///
    /// Returns `None` if nothing can be evicted at `place`. The call waits while pages are being
    /// filled at `place`, since these can be evicted afterwards, and for some milliseconds if pages
    /// may be referenced for only a few steps. If `place` has no clean page and none is being
    /// filled, the call returns `None` at once. If `place` has pages that are not clean,
    /// [`make_clean`](Self::make_clean) may help.
    pub fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.pool().nr_nodes()
        {
            return None;
        }
        Allocator(self.files.supply()).alloc_at(order, place).ok()
    }

    /// Requests that the threads of the cache clean pages in frames of `place`, so that the pages
    /// can be evicted for a block of `order`, and waits for the result. The threads write back
    /// files with background writeback that have such pages, and make them durable. Returns `true`
    /// if any page was cleaned. Otherwise the next sync of each file returns the reason.
    ///
    /// The caller must hold no lock that a callback of the program may acquire. The call waits for
    /// calls of backends and callbacks as long as these return, and up to a second for a call that
    /// does not return. In a callback, a page codec or a fork, it does nothing and returns `false`.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        Cleaner(&self.files).make_clean_at(order, place)
    }

    /// Moves the page of a file in `frame` to `to`, a block of the page's size, even if the page is
    /// not clean. Returns the old block.
    ///
    /// # Errors
    ///
    /// Returns `to` if it is a block of another pool, if `frame` has no page of that size, or if
    /// the page is claimed, has another reference or is pinned for writing.
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
