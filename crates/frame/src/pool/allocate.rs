//! Blocks and references that a pool hands out as handles, and takes back.

use super::frame_pool::FramePool;
use super::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::alloc::{AllocError, AllocRequest, blocks};
use crate::count::{RefScheme, TryGet};
use crate::words::{FrameNr, Order};

impl<S: RefScheme> FramePool<S> {
    /// Allocates a block of `order`, or none when no node has one free.
    ///
    /// Its bytes are whatever was in them last.
    #[inline]
    pub fn alloc(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        if let Some(frame) = self.allocator().alloc_at_hand(order) {
            return Some(UniqueFrame::new(self, frame, order));
        }
        self.alloc_slowly(order)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slowly(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        let frame = self.allocator().alloc_by(&AllocRequest::new(order)).ok()?;
        Some(UniqueFrame::new(self, frame, order))
    }

    /// As [`alloc`](Self::alloc), but leaves other threads their front caches: for who can make room elsewhere, which costs less than
    /// stopping other threads to take what they have at hand.
    #[inline]
    pub fn alloc_near(&self, order: Order) -> Option<UniqueFrame<'_, S>> {
        let near = self.allocator().alloc_at_hand(order);
        let frame = near.or_else(|| self.allocator().alloc_near(order))?;
        Some(UniqueFrame::new(self, frame, order))
    }

    /// Allocates a block as `request` says.
    ///
    /// # Errors
    ///
    /// [`AllocError`] when the pool has no such node, or no such block free.
    #[cold]
    pub fn alloc_by(&self, request: &AllocRequest) -> Result<UniqueFrame<'_, S>, AllocError> {
        let frame = self.allocator().alloc_by(request)?;
        Ok(UniqueFrame::new(self, frame, request.order))
    }

    /// Allocates up to `nr` single frames, and appends them to `frames`. Returns how many those are; fewer
    /// only when the pool has no more.
    ///
    /// Cheaper than as many allocations, and the frames are next to each other where memory allows.
    pub fn alloc_bulk<'p>(&'p self, nr: usize, frames: &mut Vec<UniqueFrame<'p, S>>) -> usize {
        let hold = move |frame| UniqueFrame::new(self, frame, Order::ZERO);
        self.allocator().alloc_bulk(nr, frames, hold)
    }

    /// As [`alloc_bulk`](Self::alloc_bulk), from one node, and not from the front caches: whoever gets too few asks for
    /// the rest one by one ([`alloc_by`](Self::alloc_by)).
    pub fn alloc_bulk_on<'p>(
        &'p self,
        node: usize,
        nr: usize,
        frames: &mut Vec<UniqueFrame<'p, S>>,
    ) -> usize {
        let hold = move |frame| UniqueFrame::new(self, frame, Order::ZERO);
        self.allocator().alloc_bulk_on(node, nr, frames, hold)
    }

    /// Tries to take a reference to `frame`.
    ///
    /// The frame may have been freed, and allocated anew, since the caller learnt its number: with the
    /// reference in hand the caller must check that it is still the frame that it was looking for, and
    /// else drop the reference (which may free the frame, if everybody else has dropped theirs).
    ///
    /// A frame that the pool does not have is never anybody's: [`TryGetFrame::Locked`].
    pub fn try_get(&self, frame: FrameNr) -> TryGetFrame<'_, S> {
        let Some(record) = self.lists().table.get(frame.index()) else {
            return TryGetFrame::Locked;
        };
        match record.refs.try_get() {
            TryGet::Taken => TryGetFrame::Taken(FrameRef::new(self, frame)),
            TryGet::Locked => TryGetFrame::Locked,
            TryGet::Saturated => TryGetFrame::Saturated,
        }
    }

    /// Takes what is free in the block of `order` that begins at `first`, in the front caches too:
    /// its free parts, in ascending order.
    ///
    /// Whoever wants to make room for the whole block takes these first, so that nobody else allocates
    /// them meanwhile, adds what was in the rest of it, and calls [`join`](Self::join); or gives up and
    /// calls [`free_to_nodes`](Self::free_to_nodes).
    pub fn take_free_within(&self, first: FrameNr, order: Order) -> Vec<UniqueFrame<'_, S>> {
        let blocks = blocks::take_free_within(self.lists(), first, order);
        blocks
            .into_iter()
            .map(|(frame, order)| UniqueFrame::new(self, frame, order))
            .collect()
    }

    /// Makes one block of `order` out of `parts`, which are to be the whole of it in ascending order,
    /// or a larger block, whose rest is freed.
    ///
    /// If they are anything else they are freed, and the answer is none.
    ///
    /// # Panics
    ///
    /// When one of the parts is of another pool.
    pub fn join<'p>(
        &'p self,
        parts: Vec<UniqueFrame<'p, S>>,
        order: Order,
    ) -> Option<UniqueFrame<'p, S>> {
        assert!(
            parts.iter().all(|part| std::ptr::eq(part.pool(), self)),
            "a block of another pool"
        );
        let parts: Vec<(FrameNr, Order)> =
            parts.into_iter().map(|part| self.dissolve(part)).collect();
        let block = blocks::join(self.lists(), &parts, order)?;
        Some(UniqueFrame::new(self, block, order))
    }

    /// Makes single frames of a block, each this caller's alone, and appends them to `frames` in ascending order.
    ///
    /// # Panics
    ///
    /// When the block is of another pool.
    pub fn split_into<'p>(
        &'p self,
        block: UniqueFrame<'p, S>,
        frames: &mut Vec<UniqueFrame<'p, S>>,
    ) {
        let (first, order) = self.dissolve(block);
        blocks::split(self.lists(), first, order);
        let parts = first.get()..first.get() + order.frames();
        frames.extend(parts.map(|nr| UniqueFrame::new(self, FrameNr::new(nr), Order::ZERO)));
    }

    /// Frees blocks straight to their nodes, where they merge with what is free around them; a frame in
    /// a front cache does not.
    ///
    /// # Panics
    ///
    /// When one of the blocks is of another pool.
    pub fn free_to_nodes(&self, blocks: Vec<UniqueFrame<'_, S>>) {
        for block in blocks {
            let (frame, order) = self.dissolve(block);
            self.lists().free_to_node(frame, order);
        }
    }

    /// As [`free_to_nodes`](Self::free_to_nodes), with one lock for all that are next to each other in `blocks` and of one
    /// node; `blocks` is empty then. Single frames are freed fastest in ascending order.
    ///
    /// # Panics
    ///
    /// When one of the blocks is of another pool.
    pub fn free_bulk<'p>(&'p self, blocks: &mut Vec<UniqueFrame<'p, S>>) {
        blocks::free_bulk(self.lists(), blocks.drain(..), |block| self.dissolve(block));
    }

    /// Takes a handle apart; its block stays allocated, and is the caller's.
    fn dissolve(&self, block: UniqueFrame<'_, S>) -> (FrameNr, Order) {
        assert!(std::ptr::eq(block.pool(), self), "a block of another pool");
        let order = block.order();
        (block.into_withheld(), order)
    }
}
