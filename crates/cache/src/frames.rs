//! The frames of a cache, for what shares them: memory spaces, say.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FramePool, Order};

use crate::cache::Cache;
use crate::shared::Shared;

/// The frames of a cache. Whoever allocates from its pool takes them from the pages of files; the cache's capacity bounds
/// both.
pub struct CacheFrames<S: RefScheme = LockBit> {
    shared: Arc<Shared<S>>,
}

impl<S: RefScheme> Cache<S> {
    /// The frames of this cache, to share them.
    pub fn frames(&self) -> CacheFrames<S> {
        CacheFrames {
            shared: Arc::clone(self.shared()),
        }
    }
}

impl<S: RefScheme> CacheFrames<S> {
    /// The pool.
    pub fn pool(&self) -> &FramePool<S> {
        &self.shared.pool
    }

    /// Evicts pages until a block of `order` is free; false when there is nothing more to evict for it. Somebody else may be
    /// quicker to allocate it.
    pub fn make_room(&self, order: Order) -> bool {
        self.shared.alloc(order).is_ok()
    }
}

impl<S: RefScheme> fmt::Debug for CacheFrames<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFrames")
            .field("pool", self.pool())
            .finish()
    }
}
