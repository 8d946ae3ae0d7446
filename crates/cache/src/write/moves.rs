//! Moves of pages to other frames: to another node, or out of the range of a large block.
//!
//! Protocol.
//! 1. Allocate the frame, with no claim held.
//! 2. Claim the slot. Freeze the page's frame at a count of one; if another thread has a reference
//!    to the page, the page is not moved. So no writer is changing a page that moves.
//! 3. Copy the bytes, publish the new frame with the page's state and log sequence number, and end
//!    the claim with the new frame and a new version.
//! 4. Free the old frame, which was frozen all along, or return it.
//!
//! For readers, a move is a write that changes no bytes ([`super::page`]). The sets of dirty and
//! unsynced pages are indexed by page number and do not change. A page that is pinned for writing
//! is not moved: threads that wait for it sleep on the metadata of its frame.
//!
//! Verified by `loom_move_vs_read_and_reuse`, `loom_move_vs_write`, `loom_move_vs_pin`,
//! `loom_move_vs_evict`, `loom_move_vs_flush`.

use pagewell_frame::{FrameKind, FrameNr, UniqueFrame};
use pagewell_sync::scaled;
use pagewell_sync::thread::Backoff;

use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::claim::Claim;
use crate::mapping::record::Mapping;
use crate::supply::alloc::Allocator;
use crate::supply::evict::Evictor;
use crate::supply::parts::Supply;

/// Maximum number of attempts: another thread's claim or reference usually ends within a few steps.
const LOOKS: usize = scaled(4, 1);

/// Outcome of a page move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum PageMove {
    /// The page was moved.
    Done,
    /// The page was already on the node.
    There,
    /// The page is not resident.
    NotCached,
    /// The node has no frame for the page.
    NodeFull,
    /// The page is pinned, is read with a reference, or is being written to the backend.
    Pinned,
    /// Another thread had claimed or changed the slot in every attempt.
    Busy,
}

pub(crate) fn move_page(mapping: &Mapping, page: PageNr, node: usize) -> PageMove {
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

/// Moves the page in `frame` to `to`, and returns the old block. Fails with `to` if it is of
/// another pool or size, or if the page is missing, claimed, locked or referenced.
pub(crate) fn move_out_of<'s>(
    supply: &'s Supply,
    frame: FrameNr,
    mut to: UniqueFrame<'s>,
) -> Result<UniqueFrame<'s>, UniqueFrame<'s>> {
    let pool = supply.pool();
    let is_ours = std::ptr::eq(to.pool(), pool) && frame.index() < pool.nr_frames();
    if !is_ours || pool.meta(frame).kind() != (FrameKind::Page, to.order()) {
        return Err(to);
    }
    for _ in 0..2 {
        let Some((leaf, position, slot)) = Evictor(supply).slot_of(frame) else {
            break;
        };
        let Ok(claim) = Claim::try_new(&supply.claims, leaf, position, slot) else {
            break;
        };
        match claim.relocate(to) {
            Ok(old) => return Ok(old),
            Err(back) => to = back,
        }
        // The claim has ended: if a protection ends here, the second attempt may succeed.
        if !look_at_pins(supply, frame) {
            break;
        }
    }
    Err(to)
}

/// Ends the hazard protection of `frame` and other queried frames that have no hazard. Returns
/// `true` if any frame has lost its protection, so that another attempt may succeed.
fn look_at_pins(supply: &Supply, frame: FrameNr) -> bool {
    supply.pool().doubt(frame);
    supply.pool().look_at_announced() != 0
}
