//! Moving pages to other frames: to another node, or out of the place of a large block.
//!
//! Protocol.
//! 1. Find the frame, with nothing in hand.
//! 2. Claim the slot. Freeze the page's frame at a count of one; if another thread holds the page, it is not moved. So no pin and
//!    no transfer ever sees it leave, and no writer is at work on it.
//! 3. Copy the bytes; publish the new frame with the page's state and log sequence number; end the claim with the new
//!    frame and a new version.
//! 4. Free the old frame, which was frozen all along.
//!
//! A move is a write that changes nothing ([`super::page`]), so the same argument holds for readers. The sets of dirty and
//! written pages go by the page's number, and do not change. A page that is pinned to be changed stays: threads that wait
//! for it wait at its frame's record.
//!
//! Proved by `loom_move_vs_read_and_reuse`, `loom_move_vs_write`, `loom_move_vs_pin`, `loom_move_vs_evict`,
//! `loom_move_vs_flush`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, UniqueFrame};
use pagewell_sync::thread::Backoff;

use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::claim::Claim;
use crate::mapping::record::Mapping;
use crate::supply::alloc::Allocator;
use crate::supply::evict::Evictor;
use crate::supply::parts::Supply;

/// How often a page that others hold is tried: most hold it only for a moment.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

/// The outcome of moving a page.
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
    /// It is pinned, or on its way to the storage.
    Pinned,
    /// Other threads were changing its place all the while.
    Busy,
}

/// Moves a page to a frame of `node`, if it is cached.
pub(crate) fn move_page<S: RefScheme>(mapping: &Mapping<S>, page: PageNr, node: usize) -> PageMove {
    let supply = mapping.supply();
    let mut to = None;
    let mut failure = PageMove::Busy;
    let mut backoff = Backoff::new();
    for _ in 0..LOOKS {
        let Some(seen) = mapping.index().look(page) else {
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
        if supply.pool().node_of(frame) == Some(node) {
            return PageMove::There;
        }
        let Some(fresh) = to
            .take()
            .or_else(|| Allocator(supply).alloc_on(mapping.order(), node))
        else {
            return PageMove::NodeFull;
        };
        match seen.claim_present(&supply.claims) {
            None => to = Some(fresh),
            Some(claim) => match claim.relocate(fresh) {
                // Dropping the old frame frees it.
                Ok(_old) => return PageMove::Done,
                Err(fresh) => {
                    failure = PageMove::Pinned;
                    to = Some(fresh);
                    look_at_pins(supply, frame);
                }
            },
        }
        backoff.wait();
    }
    failure
}

/// Moves the page in `frame` to `to`, a block of its size; returns the old block.
///
/// # Errors
///
/// `to`, when it is a block of another pool, there is no page in the frame, or another thread holds it.
pub(crate) fn move_out_of<'s, S: RefScheme>(
    supply: &'s Supply<S>,
    frame: FrameNr,
    to: UniqueFrame<'s, S>,
) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
    let pool = supply.pool();
    let is_ours = std::ptr::eq(to.pool(), pool) && frame.index() < pool.nr_frames();
    if !is_ours || pool.meta(frame).kind() != (FrameKind::Page, to.order()) {
        return Err(to);
    }
    let Some((leaf, position, slot)) = Evictor(supply).slot_of(frame) else {
        return Err(to);
    };
    let claim = match Claim::try_new(&supply.claims, leaf, position, slot) {
        Ok(claim) => claim,
        Err(_) => return Err(to),
    };
    let to = match claim.relocate(to) {
        Ok(old) => return Ok(old),
        Err(to) => to,
    };
    if !look_at_pins(supply, frame) {
        return Err(to);
    }
    // Once more, from the beginning: the claim has ended.
    match Evictor(supply).slot_of(frame) {
        Some((leaf, position, slot)) => {
            match Claim::try_new(&supply.claims, leaf, position, slot) {
                Ok(claim) => claim.relocate(to),
                Err(_) => Err(to),
            }
        }
        None => Err(to),
    }
}

/// Looks whether announced pins keep the page in `frame`, if they are all that may; whether the mark by which they might be is gone, so that
/// another try may succeed.
fn look_at_pins<S: RefScheme>(supply: &Supply<S>, frame: FrameNr) -> bool {
    supply.pool().doubt(frame);
    supply.pool().look_at_announced() != 0
}
