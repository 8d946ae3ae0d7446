//! Operations of a pool that return or consume handles.

use super::frame_pool::FramePool;
use super::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::alloc::{AllocError, AllocRequest, blocks};
use crate::count::TryGet;
use crate::words::{FrameNr, Order};

impl FramePool {
    /// Allocates a block of `order`, with arbitrary contents. Returns `None` if none is free.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<UniqueFrame<'_>> {
        if let Some(frame) = self.lists().alloc_at_hand(order) {
            return Some(UniqueFrame::new(self, frame, order));
        }
        self.alloc_slowly(order)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slowly(&self, order: Order) -> Option<UniqueFrame<'_>> {
        let frame = self.lists().alloc_by(&AllocRequest::new(order)).ok()?;
        Some(UniqueFrame::new(self, frame, order))
    }

    /// Like [`alloc`](Self::alloc), but does not drain the caches of other threads, which stalls
    /// them. For callers that can free frames at a lower cost.
    #[inline]
    pub fn alloc_near(&self, order: Order) -> Option<UniqueFrame<'_>> {
        let near = self.lists().alloc_at_hand(order);
        let frame = near.or_else(|| self.lists().alloc_near(order))?;
        Some(UniqueFrame::new(self, frame, order))
    }

    /// Allocates for `request`. Fails if the node does not exist, or no permitted node has a block.
    #[cold]
    pub fn alloc_by(&self, request: &AllocRequest) -> Result<UniqueFrame<'_>, AllocError> {
        let frame = self.lists().alloc_by(request)?;
        Ok(UniqueFrame::new(self, frame, request.order))
    }

    /// Allocates up to `nr` single frames, neighbouring ones where possible, and appends them to
    /// `frames`. Returns their number: less than `nr` only if no more free frames are found.
    pub fn alloc_bulk<'p>(&'p self, nr: usize, frames: &mut Vec<UniqueFrame<'p>>) -> usize {
        let hold = move |frame| UniqueFrame::new(self, frame, Order::ZERO);
        self.lists().alloc_bulk(nr, frames, hold)
    }

    /// Like [`alloc_bulk`](Self::alloc_bulk), but only from one node's free lists, not from caches.
    pub fn alloc_bulk_on<'p>(
        &'p self,
        node: usize,
        nr: usize,
        frames: &mut Vec<UniqueFrame<'p>>,
    ) -> usize {
        let hold = move |frame| UniqueFrame::new(self, frame, Order::ZERO);
        self.lists().alloc_bulk_on(node, nr, frames, hold)
    }

    /// Tries to acquire a reference to `frame`, which may have been freed and allocated again: the
    /// caller must check that it is the frame that it looked up, and drop the reference if not.
    /// That drop may free the frame. Returns [`TryGetFrame::Locked`] if the pool has no such frame.
    #[inline]
    pub fn try_get(&self, frame: FrameNr) -> TryGetFrame<'_> {
        let Some(record) = self.lists().table.get(frame.index()) else {
            return TryGetFrame::Locked;
        };
        match record.refs.try_get() {
            TryGet::Taken => TryGetFrame::Taken(FrameRef::new(self, frame)),
            TryGet::Locked => TryGetFrame::Locked,
            TryGet::Saturated => TryGetFrame::Saturated,
        }
    }

    /// Allocates the free and cached parts of the block of `order` at `first`, in ascending order.
    /// To assemble the block, a caller allocates these parts first, obtains the others, and calls
    /// [`join`](Self::join), or gives up and calls [`free_to_nodes`](Self::free_to_nodes).
    pub fn take_free_within(&self, first: FrameNr, order: Order) -> Vec<UniqueFrame<'_>> {
        let blocks = blocks::take_free_within(self.lists(), first, order);
        blocks
            .into_iter()
            .map(|(frame, order)| UniqueFrame::new(self, frame, order))
            .collect()
    }

    /// Joins `parts`, in ascending order, to a block of `order`. They must form it, or be one
    /// larger block, whose rest is freed. Otherwise frees them and returns `None`. Panics for
    /// another pool's part.
    pub fn join<'p>(
        &'p self,
        parts: Vec<UniqueFrame<'p>>,
        order: Order,
    ) -> Option<UniqueFrame<'p>> {
        assert!(
            parts.iter().all(|part| std::ptr::eq(part.pool(), self)),
            "cannot join blocks: one is of another pool"
        );
        let parts: Vec<(FrameNr, Order)> =
            parts.into_iter().map(|part| self.dissolve(part)).collect();
        let block = blocks::join(self.lists(), &parts, order)?;
        Some(UniqueFrame::new(self, block, order))
    }

    /// Splits a block into single frames, appended to `frames` in order. Panics if the block is
    /// from another pool.
    pub fn split_into<'p>(&'p self, block: UniqueFrame<'p>, frames: &mut Vec<UniqueFrame<'p>>) {
        let (first, order) = self.dissolve(block);
        blocks::split(self.lists(), first, order);
        let parts = first.get()..first.get() + order.frames();
        frames.extend(parts.map(|nr| UniqueFrame::new(self, FrameNr::new(nr), Order::ZERO)));
    }

    /// Frees blocks to their nodes, where they merge. Panics if a block is from another pool.
    pub fn free_to_nodes(&self, blocks: Vec<UniqueFrame<'_>>) {
        for block in blocks {
            let (frame, order) = self.dissolve(block);
            self.lists().free_to_node(frame, order);
        }
    }

    /// Like [`free_to_nodes`](Self::free_to_nodes), but empties `blocks`, and locks a node once for
    /// consecutive blocks of that node. Single frames in order are fastest. Panics for another
    /// pool's block.
    pub fn free_bulk<'p>(&'p self, blocks: &mut Vec<UniqueFrame<'p>>) {
        blocks::free_bulk(self.lists(), blocks.drain(..), |block| self.dissolve(block));
    }

    /// Consumes a handle. The block stays allocated, and then belongs to the caller.
    fn dissolve(&self, block: UniqueFrame<'_>) -> (FrameNr, Order) {
        assert!(
            std::ptr::eq(block.pool(), self),
            "cannot take a block of another pool"
        );
        let order = block.order();
        (block.into_withheld(), order)
    }
}
