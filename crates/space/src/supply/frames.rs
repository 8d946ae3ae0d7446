//! Allocation of frames for spaces, and reclaim if none is free.
//!
//! # Reclaim that waits
//!
//! Allocations run with locks of a space held, so the source may only evict clean pages: writeback
//! would wait for a backend and call callbacks of the program, which may use spaces. An operation
//! that fails for lack of frames releases all locks, has the source clean pages, and restarts
//! ([`Supply::with_room`]). It must have changed nothing that prevents a restart. It is repeated at
//! most [`TRIES`] times, if pages were cleaned, and may fail if other threads allocate the frames.

use std::sync::Arc;

use pagewell_frame::{AllocError, AllocRequest, FrameNr, FramePool, Order, Place, UniqueFrame};
use pagewell_sync::shard::Padded;

use crate::error::{Error, ErrorKind};
use crate::supply::source::FrameSource;
use crate::supply::stock::TableStock;
use crate::supply::view::PoolView;
use crate::words::claim;

const TRIES: usize = 4;

pub(crate) struct Supply {
    /// View of the pool of `source`, which this value keeps alive.
    view: PoolView,
    source: Arc<dyn FrameSource>,
    tables: Padded<TableStock>,
}

impl Supply {
    pub(crate) fn new(source: Arc<dyn FrameSource>) -> Self {
        Self {
            view: PoolView::new(source.pool()),
            source,
            tables: Padded::default(),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        self.view.pool()
    }

    /// Returns a view. A copy must be kept beside an owner of this supply, and used only with it.
    #[inline]
    pub(crate) fn view(&self) -> &PoolView {
        &self.view
    }

    /// Allocates a block. If none is free, has the source evict pages.
    pub(crate) fn alloc(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
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

    /// Has the source reclaim a block ([`FrameSource::make_room`]). The caller holds no claim.
    /// Drops a block of another pool or order: its number in a table would name arbitrary memory.
    pub(crate) fn make_room(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        let block = self.source.make_room(order, place);
        block.filter(|block| std::ptr::eq(block.pool(), self.pool()) && block.order() == order)
    }

    /// As [`FrameSource::move_page`]; an error returns a block that the caller may free.
    pub(crate) fn move_page<'s>(
        &'s self,
        frame: FrameNr,
        to: UniqueFrame<'s>,
    ) -> Result<UniqueFrame<'s>, UniqueFrame<'s>> {
        let left = self.source.move_page(frame, to)?;
        // As in `make_room`, a source may return a block of another pool.
        let is_asked = std::ptr::eq(left.pool(), self.pool()) && left.frame() == frame;
        if is_asked { Ok(left) } else { Err(left) }
    }

    /// Allocates a block on `node` only, without reclaim.
    pub(crate) fn alloc_on(&self, order: Order, node: usize) -> Option<UniqueFrame<'_>> {
        claim::assert_none_held();
        let request = AllocRequest {
            order,
            place: Place::Only(node),
        };
        self.pool().alloc_by(&request).ok()
    }

    /// Allocates a frame for a table, and counts the table. The caller later calls
    /// [`free_table`](Self::free_table) or [`forget_table`](Self::forget_table).
    pub(crate) fn alloc_table(&self) -> Option<UniqueFrame<'_>> {
        let frame = self
            .tables
            .take(self.pool())
            .or_else(|| self.alloc(Order::ZERO, Place::Anywhere));
        if frame.is_none() {
            self.forget_table();
        }
        frame
    }

    pub(crate) fn free_table(&self, frame: UniqueFrame<'_>) {
        self.tables.put(self.pool(), frame);
    }

    /// Uncounts a table whose frame is freed by the drop of its last reference.
    pub(crate) fn forget_table(&self) {
        self.tables.forget(self.pool());
    }

    /// Runs `attempt`. If it fails for lack of frames, has the source clean pages at the place that
    /// `wanted` returns for the error, and retries. The caller holds no lock.
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
        // The failed allocation may have been for a table, whose frame can be on any node.
        place != Place::Anywhere
            && self.pool().alloc(Order::ZERO).is_none()
            && self.source.make_clean(Order::ZERO, Place::Anywhere)
    }
}
