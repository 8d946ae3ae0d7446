use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

/// Source of the frames of spaces: a pool. Frames can be reclaimed from other users of the pool.
pub trait FrameSource: Send + Sync {
    /// Returns the pool, always the same one.
    fn pool(&self) -> &FramePool;

    /// Reclaims a block of `order` at `place` from other users of the frames. Called if none is
    /// free. The caller holds locks of a space, so the source must not use spaces of this source,
    /// nor wait for a thread that does. A block of another pool or order counts as `None`.
    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        let _ = (order, place);
        None
    }

    /// Performs operations that wait, such as writeback, so that [`make_room`](Self::make_room) may
    /// succeed at `place`. Returns whether to try again. The caller holds no lock; the source may
    /// call programs that use spaces.
    fn make_clean(&self, order: Order, place: Place) -> bool {
        let _ = (order, place);
        false
    }

    /// Moves the source's page in `frame` to the block `to`, of the same order, and returns the
    /// block that it left, or the error `to` if it cannot be moved. Like
    /// [`make_room`](Self::make_room), this must not use spaces. If the source returns another
    /// block, the move counts as failed.
    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f>,
    ) -> Result<UniqueFrame<'f>, UniqueFrame<'f>> {
        let _ = frame;
        Err(to)
    }
}

impl FrameSource for FramePool {
    fn pool(&self) -> &FramePool {
        self
    }
}

impl FrameSource for std::sync::Arc<FramePool> {
    fn pool(&self) -> &FramePool {
        self
    }
}

/// Frames of a page cache, which evicts pages of files for pages of spaces.
impl FrameSource for pagewell_cache::CacheFrames {
    fn pool(&self) -> &FramePool {
        Self::pool(self)
    }

    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        Self::make_room(self, order, place)
    }

    fn make_clean(&self, order: Order, place: Place) -> bool {
        Self::make_clean(self, order, place)
    }

    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f>,
    ) -> Result<UniqueFrame<'f>, UniqueFrame<'f>> {
        Self::move_page(self, frame, to)
    }
}
