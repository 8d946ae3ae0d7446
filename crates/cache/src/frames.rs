//! The frames of a cache, for what shares them: memory spaces, say.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FrameNr, FramePool, Order, UniqueFrame};
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

    /// Evicts pages until a block of `order` is free; false when there is nothing more to evict for it. Somebody else may be
    /// quicker to allocate it.
    pub fn make_room(&self, order: Order) -> bool {
        self.shared.alloc(order).is_ok()
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
