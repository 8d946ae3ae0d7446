use pagewell_frame::refcount::{RefScheme, Scheme};
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

/// Source of the frames of spaces: a pool. Frames can be reclaimed from other users of the pool.
pub trait FrameSource<S: RefScheme = Scheme>: Send + Sync {
    /// Returns the pool, always the same one.
    fn pool(&self) -> &FramePool<S>;

    /// Reclaims a block of `order` at `place` from other users of the frames. Called if none is
    /// free. The caller holds locks of a space, so the source must not use spaces of this source,
    /// nor wait for a thread that does. A block of another pool or order counts as `None`.
    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
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
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        let _ = frame;
        Err(to)
    }
}

impl<S: RefScheme> FrameSource<S> for FramePool<S> {
    fn pool(&self) -> &FramePool<S> {
        self
    }
}

impl<S: RefScheme> FrameSource<S> for std::sync::Arc<FramePool<S>> {
    fn pool(&self) -> &FramePool<S> {
        self
    }
}

/// Frames of a page cache, which evicts pages of files for pages of spaces.
impl<S: RefScheme> FrameSource<S> for pagewell_cache::CacheFrames<S> {
    fn pool(&self) -> &FramePool<S> {
        Self::pool(self)
    }

    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        Self::make_room(self, order, place)
    }

    fn make_clean(&self, order: Order, place: Place) -> bool {
        Self::make_clean(self, order, place)
    }

    fn move_page<'f>(
        &'f self,
        frame: FrameNr,
        to: UniqueFrame<'f, S>,
    ) -> Result<UniqueFrame<'f, S>, UniqueFrame<'f, S>> {
        Self::move_page(self, frame, to)
    }
}
