//! Moving pages to other frames: to another node, or out of the place of a large block.
//!
//! Protocol.
//! 1. Find the frame, with nothing in hand.
//! 2. Claim the slot. Freeze the page's frame at a count of one: nobody holds the page, or it is not moved. So no pin and
//!    no transfer ever sees it leave, and no writer is at work on it.
//! 3. Copy the bytes; publish the new frame with the page's state and log sequence number; end the claim with the new
//!    frame and a new version.
//! 4. Free the old frame, which was frozen all along.
//!
//! It is a write that changes nothing ([`crate::write`]), so the same argument holds for readers. The sets of dirty and
//! written pages go by the page's number, and do not change. A page that is pinned to be changed stays: those who wait
//! for it wait at its frame's record.
//!
//! Proved by `loom_move_vs_read_and_reuse`, `loom_move_vs_write`, `loom_move_vs_pin`, `loom_move_vs_evict`,
//! `loom_move_vs_flush`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{AllocRequest, FrameKind, FrameNr, Order, Place, Reserve, UniqueFrame};
use pagewell_sync::thread::Backoff;

use crate::claim::Claim;
use crate::index::PageNr;
use crate::mapping::Mapping;
use crate::page_state::PageState;
use crate::shared::Shared;
use crate::slot::State;

/// How often a page is tried that somebody holds: most hold it for a moment only.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

/// What came of moving a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum PageMove {
    /// It was moved.
    Done,
    /// It was on the node already.
    There,
    /// It is not cached.
    NotCached,
    /// The node has no frame for it.
    NodeFull,
    /// Somebody has it pinned, or it is on its way to the storage.
    Pinned,
    /// Somebody was changing its place all the while.
    Busy,
}

impl<S: RefScheme> Mapping<S> {
    /// Moves a page to a frame of `node`, if it is cached.
    pub(crate) fn move_page(&self, page: PageNr, node: usize) -> PageMove {
        let shared = self.shared();
        let mut to = None;
        let mut failure = PageMove::Busy;
        let mut backoff = Backoff::new();
        for _ in 0..LOOKS {
            let Some(seen) = self.index().look(page) else {
                return PageMove::NotCached;
            };
            let frame = match seen.slot.state() {
                State::Empty => return PageMove::NotCached,
                State::Present(frame) => frame,
                State::Busy => {
                    backoff.wait();
                    continue;
                }
            };
            if shared.pool.node_of(frame) == Some(node) {
                return PageMove::There;
            }
            let Some(fresh) = to.take().or_else(|| shared.alloc_on(self.order(), node)) else {
                return PageMove::NodeFull;
            };
            match seen.claim_present(shared) {
                None => to = Some(fresh),
                Some(claim) => match claim.relocate(fresh) {
                    // Dropping the old frame frees it.
                    Ok(_old) => return PageMove::Done,
                    Err(fresh) => {
                        failure = PageMove::Pinned;
                        to = Some(fresh);
                    }
                },
            }
            backoff.wait();
        }
        failure
    }
}

impl<S: RefScheme> Shared<S> {
    /// A block on this node and no other, if one is free.
    fn alloc_on(&self, order: Order, node: usize) -> Option<UniqueFrame<'_, S>> {
        let request = AllocRequest {
            order,
            place: Place::Only(node),
            reserve: Reserve::Keep,
        };
        self.pool.alloc_by(&request).ok()
    }

    /// Moves the page in `frame` to `to`, a block of its size; returns the block that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when it is a block of another pool, there is no page in the frame, or somebody holds it.
    pub(crate) fn move_out_of<'s>(
        &'s self,
        frame: FrameNr,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let is_ours =
            std::ptr::eq(to.pool(), &raw const self.pool) && frame.index() < self.pool.nr_frames();
        if !is_ours || self.pool.meta(frame).kind() != (FrameKind::Page, to.order()) {
            return Err(to);
        }
        let Some((leaf, position, slot)) = self.slot_of(frame) else {
            return Err(to);
        };
        match Claim::try_new(self, leaf, position, slot) {
            Ok(claim) => claim.relocate(to),
            Err(_) => Err(to),
        }
    }
}

impl<'s, S: RefScheme> Claim<'s, S> {
    /// Ends the claim of a present slot by moving the page to `to`; returns the block that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when somebody holds the page, or it is of another size; the slot is as it was then.
    pub(crate) fn relocate(
        self,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let Some(frame) = self.frame() else {
            return Err(to);
        };
        let record = self.shared().pool.meta(frame);
        let state = PageState::of(record);
        // The kind of a frame that a slot names does not change, nor does the order.
        if state.is_locked() || record.kind().1 != to.order() {
            return Err(to);
        }
        let [_, lsn] = record.private();
        let Some(old) = self.freeze() else {
            return Err(to);
        };
        let bytes = to.bytes();
        bytes.copy_from_racy(0, old.bytes());
        self.end_moved(to, state, lsn);
        Ok(old)
    }
}
