//! The frames of a cache, for what shares them: memory spaces, say.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

use crate::files::clean::Cleaner;
use crate::files::state::Files;
use crate::supply::alloc::Allocator;
use crate::write::moves;

/// The frames of a cache. Whoever allocates from its pool takes them from the pages of files; the cache's capacity bounds
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

    /// Makes room: a block of `order` that may be at `place`, for which pages of files are evicted if none is free.
    ///
    /// Where pages are evicted follows the place. For [`Place::Only`] it is that node alone, whatever is free elsewhere. For
    /// [`Place::Prefer`] a block is taken of any node first, if one is free, as near as can be; then pages of that node are
    /// evicted, and those of others if it has none that can be. Of a node alone a few more are evicted along with the
    /// first. Pages that were referenced lately go last, and those that are pinned, or not clean, not at all.
    ///
    /// None when nothing could be evicted there for about a tenth of a second, during which no page was on its way into a
    /// frame there: a page that is held for a moment is waited for. If there are no clean pages there, held or not, none at
    /// once. [`make_clean`](Self::make_clean) may help then, if there are others.
    pub fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        if let Place::Prefer(node) | Place::Only(node) = place
            && node >= self.pool().nr_nodes()
        {
            return None;
        }
        Allocator(self.files.supply()).alloc_at(order, place).ok()
    }

    /// Makes pages clean that are in frames of `place`, so that they can be evicted for a block of `order`: those of a file
    /// that is written back in the background are given to the storage, and made durable; for a block of several frames, of
    /// all such files. Whether any page was made clean. If not, the next sync of each file tells why.
    ///
    /// To be called with no lock in hand that a hook of the program may want. It waits for the storage, and calls hooks;
    /// called by a hook it does nothing.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        Cleaner(&self.files).make_clean_at(order, place)
    }

    /// Moves the page of a file that is in `frame` to `to`, a block of its size, whatever its state; returns the block
    /// that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when there is no page of that size in the frame, or somebody holds it, or has it pinned to be changed.
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
