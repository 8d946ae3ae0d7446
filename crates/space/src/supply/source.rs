//! Where spaces get their frames from: a pool of their own, or one that they share with a cache of files.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool, Order, Place, UniqueFrame};

/// Where spaces get their frames from.
///
/// A pool is one. What shares its frames with others, such as a cache of files, makes room by taking from them.
pub trait FrameSource<S: RefScheme>: Send + Sync {
    /// The pool; the same one for as long as the source lives.
    fn pool(&self) -> &FramePool<S>;

    /// Makes room: a block of `order` that may be at `place`, taken from what else the source has in its frames; none if
    /// there is nothing to take. It is asked when no such block is free.
    ///
    /// It is called with locks of a space held, so it must not use spaces of this source, nor wait for anybody who does. A
    /// block of another pool or order is dropped, and counts as none.
    fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        let _ = (order, place);
        None
    }

    /// Does what takes waiting, so that [`make_room`](Self::make_room) may find something at `place` where it has found
    /// nothing: gives what is dirty to a storage, say. Whether it is worth to ask again.
    ///
    /// It is called with no lock held. It may call programs that use spaces.
    fn make_clean(&self, order: Order, place: Place) -> bool {
        let _ = (order, place);
        false
    }

    /// Moves what the source has in `frame`, a block of the order of `to`, to that; returns the block that it was in. As
    /// [`make_room`](Self::make_room), it must not use spaces; and any other block counts as if it could not be done.
    ///
    /// # Errors
    ///
    /// `to`, when that cannot be done.
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

/// The frames of a cache of files: pages of files are evicted for those of spaces, on the nodes where these may be; they
/// are written back before, if they have to be.
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
