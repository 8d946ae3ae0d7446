//! Allocation of frames for spaces, and reclaim if none is free.
//!
//! # Reclaim that waits
//!
//! Allocations run with locks of a space held. Their source may therefore evict clean pages, but no
//! more: writing dirty pages back would wait for a backend and call writeback callbacks of the
//! program, which may use spaces. An operation that fails for lack of frames therefore releases
//! everything, has the source clean pages, and restarts ([`Supply::with_room`]). A failed operation
//! has changed nothing that prevents this.
//!
//! Progress. An operation is repeated at most [`TRIES`] times, and only if pages were cleaned;
//! other threads may take the frames.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{AllocError, AllocRequest, FrameNr, FramePool, Order, Place, UniqueFrame};
use pagewell_sync::shard::Padded;

use crate::error::{Error, ErrorKind};
use crate::supply::source::FrameSource;
use crate::supply::stock::TableStock;
use crate::supply::view::PoolView;
use crate::words::claim;

const TRIES: usize = 4;

/// Frames of a pool, and the source that reclaims some.
pub(crate) struct Supply<S: RefScheme> {
    /// View of the pool of `source`: the two live together.
    view: PoolView<S>,
    source: Arc<dyn FrameSource<S>>,
    tables: Padded<TableStock>,
}

impl<S: RefScheme> Supply<S> {
    pub(crate) fn new(source: Arc<dyn FrameSource<S>>) -> Self {
        Self {
            view: PoolView::new(source.pool()),
            source,
            tables: Padded::default(),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        self.view.pool()
    }

    /// Returns a view of the pool. Copies must be kept beside an owner of this supply.
    #[inline]
    pub(crate) fn view(&self) -> &PoolView<S> {
        &self.view
    }

    /// Allocates a block, and evicts for it if none is free. (Moves: [`crate::motion::compact`].)
    pub(crate) fn alloc(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        claim::assert_none_held();
        if place == Place::Anywhere
            && let Some(frame) = self.pool().alloc(order)
        {
            return Some(frame);
        }
        let request = AllocRequest { order, place };
        match self.pool().alloc_by(&request) {
            Ok(frame) => return Some(frame),
            Err(AllocError::Exhausted { .. }) => {}
            Err(_) => return None,
        }
        if self.tables.drain(self.pool()) > 0
            && let Ok(frame) = self.pool().alloc_by(&request)
        {
            return Some(frame);
        }
        self.make_room(order, place)
    }

    /// Has the source evict for a block ([`FrameSource::make_room`]). The caller holds no claim. A
    /// block of another pool or order is dropped: any code may be a source, and a table that names
    /// a frame of another pool would name arbitrary memory.
    pub(crate) fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        let block = self.source.make_room(order, place);
        block.filter(|block| std::ptr::eq(block.pool(), self.pool()) && block.order() == order)
    }

    /// Has the source move its page in `frame` to the block `to` ([`FrameSource::move_page`]).
    pub(crate) fn move_page<'s>(
        &'s self,
        frame: FrameNr,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let left = self.source.move_page(frame, to)?;
        // As in `make_room`: a source may return a block of another pool.
        let is_asked = std::ptr::eq(left.pool(), self.pool()) && left.frame() == frame;
        if is_asked { Ok(left) } else { Err(left) }
    }

    /// Allocates a block on this node only, without reclaim.
    pub(crate) fn alloc_on(&self, order: Order, node: usize) -> Option<UniqueFrame<'_, S>> {
        claim::assert_none_held();
        let request = AllocRequest {
            order,
            place: Place::Only(node),
        };
        self.pool().alloc_by(&request).ok()
    }

    /// Allocates a frame for a table. The caller passes it to [`free_table`](Self::free_table), or
    /// calls [`forget_table`](Self::forget_table) for it.
    pub(crate) fn alloc_table(&self) -> Option<UniqueFrame<'_, S>> {
        let frame = self
            .tables
            .take(self.pool())
            .or_else(|| self.alloc(Order::ZERO, Place::Anywhere));
        if frame.is_none() {
            self.forget_table();
        }
        frame
    }

    pub(crate) fn free_table(&self, frame: UniqueFrame<'_, S>) {
        self.tables.put(self.pool(), frame);
    }

    /// Uncounts a table whose frame is freed with its last reference.
    pub(crate) fn forget_table(&self) {
        self.tables.forget(self.pool());
    }

    /// Runs `attempt`. If it fails for lack of frames, has the source clean pages where the block
    /// `wanted` may be, and repeats. The caller holds no lock.
    pub(crate) fn with_room<R>(
        &self,
        wanted: impl Fn(Error) -> (Order, Place),
        mut attempt: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        for _ in 0..TRIES {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::OutOfFrames => {
                    if !self.make_clean(wanted(error)) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
        attempt()
    }

    #[cold]
    fn make_clean(&self, (order, place): (Order, Place)) -> bool {
        claim::assert_none_held();
        if self.source.make_clean(order, place) {
            return true;
        }
        // A table may have lacked a frame, which can be on any node.
        place != Place::Anywhere
            && self.pool().alloc(Order::ZERO).is_none()
            && self.source.make_clean(Order::ZERO, Place::Anywhere)
    }
}

impl<S: RefScheme> fmt::Debug for Supply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supply")
            .field("pool", self.pool())
            .finish_non_exhaustive()
    }
}
