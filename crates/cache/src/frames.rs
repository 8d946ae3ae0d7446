//! The frames of a cache, for what shares them: memory spaces, say.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};
#[cfg(not(loom))]
use pagewell_sync::lock;

#[cfg(not(loom))]
use crate::cache::Cache;
#[cfg(not(loom))]
use crate::shared::Companion;
use crate::shared::Shared;

/// The frames of a cache. Whoever allocates from its pool takes them from the pages of files; the cache's capacity bounds
/// both.
pub struct CacheFrames<S: RefScheme = LockBit> {
    shared: Arc<Shared<S>>,
}

#[cfg(not(loom))]
impl<S: RefScheme> Cache<S> {
    /// The frames of this cache, to share them.
    pub fn frames(&self) -> CacheFrames<S> {
        CacheFrames::new(Arc::clone(self.shared()))
    }
}

#[cfg(not(loom))]
impl<S: RefScheme> Cache<S> {
    /// What else uses this cache's frames, of which there is one for all who ask: the one that exists, or what `make`
    /// makes of the frames. None if there is one of another type. The cache does not keep it. `make` must not use the
    /// cache but for its frames.
    pub fn companion_or_else<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce(CacheFrames<S>) -> Arc<T>,
    ) -> Option<Arc<T>> {
        let mut companion = lock(&self.shared().companion);
        match companion.upgrade() {
            Some(known) => known.downcast().ok(),
            None => {
                let made = make(self.frames());
                let known: Arc<Companion> = Arc::clone(&made) as _;
                *companion = Arc::downgrade(&known);
                Some(made)
            }
        }
    }
}

impl<S: RefScheme> CacheFrames<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>) -> Self {
        Self { shared }
    }

    /// The pool.
    pub fn pool(&self) -> &FramePool<S> {
        &self.shared.pool
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
        self.shared.alloc_at(order, place).ok()
    }

    /// Makes pages clean that are in frames of `place`, so that they can be evicted for a block of `order`: those of a file
    /// that is written back in the background are given to the storage, and made durable; for a block of several frames, of
    /// all such files. Whether any page was made clean. If not, the next sync of each file tells why.
    ///
    /// To be called with no lock in hand that a hook of the program may want. It waits for the storage, and calls hooks;
    /// called by a hook it does nothing.
    pub fn make_clean(&self, order: Order, place: Place) -> bool {
        self.shared.make_clean_at(order, place)
    }

    /// Moves the page of a file that is in `frame` to `to`, a block of its size, whatever its state; returns the block
    /// that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when it is a block of another pool, there is no page of that size in the frame, or somebody holds it, or has it pinned to be changed.
    pub fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        self.shared.move_out_of(frame, to)
    }
}

impl<S: RefScheme> fmt::Debug for CacheFrames<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFrames")
            .field("pool", self.pool())
            .finish()
    }
}
