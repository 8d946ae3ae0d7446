//! The frames that spaces have: allocating them, and making room where there is none.
//!
//! # Room that takes waiting
//!
//! Whatever allocates does so with locks of a space held. So its source may evict what is clean, and no more: to write back what
//! is dirty would be to wait for a storage, and to call programs' hooks, which may use spaces. An operation that has failed for
//! lack of frames therefore lets go of everything, has the source do that, and is done again from its beginning
//! ([`Supply::with_room`]). Operations that fail have changed nothing that keeps them from it.
//!
//! Progress. An operation is done again [`TRIES`] times at the most, and only if pages were made clean; others may take what has
//! become free.

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

/// How often an operation is done again.
const TRIES: usize = 4;

/// The frames of a pool, and what makes room among them.
pub(crate) struct Supply<S: RefScheme> {
    /// Of the pool of `source`: the two live together.
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

    /// A view of the pool, to be kept beside what keeps this.
    #[inline]
    pub(crate) fn view(&self) -> &PoolView<S> {
        &self.view
    }

    /// Allocates a block, making room if there is none. (Blocks are made by moving pages in [`crate::motion::compact`].)
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

    /// A block that the source makes room for ([`FrameSource::make_room`]), if it is one of the pool's and of this order; no
    /// claim is held. What a source answers is not trusted: anybody may be one, and a table that named a frame of another pool
    /// would name any memory.
    pub(crate) fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_, S>> {
        let block = self.source.make_room(order, place);
        block.filter(|block| std::ptr::eq(block.pool(), self.pool()) && block.order() == order)
    }

    /// Has the source move what it has in `frame` to the block `to` ([`FrameSource::move_page`]).
    pub(crate) fn move_page<'s>(
        &'s self,
        frame: FrameNr,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let left = self.source.move_page(frame, to)?;
        // As of `make_room`: a block of another pool is none of the place.
        let is_asked = std::ptr::eq(left.pool(), self.pool()) && left.frame() == frame;
        if is_asked { Ok(left) } else { Err(left) }
    }

    /// A block on this node and no other, if one is free.
    pub(crate) fn alloc_on(&self, order: Order, node: usize) -> Option<UniqueFrame<'_, S>> {
        claim::assert_none_held();
        let request = AllocRequest {
            order,
            place: Place::Only(node),
        };
        self.pool().alloc_by(&request).ok()
    }

    /// A frame for a table; it is to be given to [`free_table`](Self::free_table), or [`forget_table`](Self::forget_table)
    /// is to be called for it.
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

    /// Gives the frame of a table back.
    pub(crate) fn free_table(&self, frame: UniqueFrame<'_, S>) {
        self.tables.put(self.pool(), frame);
    }

    /// There is one table less, whose frame the last of those who look at it frees.
    pub(crate) fn forget_table(&self) {
        self.tables.forget(self.pool());
    }

    /// Does `attempt`, and if it fails for lack of frames again when the source has made some fit to be taken: for such
    /// a block as `wanted` says. No lock is held.
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
        // It may have been a table that there was no frame for, which may be anywhere.
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
