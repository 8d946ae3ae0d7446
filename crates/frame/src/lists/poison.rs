//! Taking frames out of use whose memory is bad.
//!
//! Protocol.
//! 1. Whoever poisons sets the flag of the frame.
//! 2. It stops all front caches and takes the node's lock, so that nothing moves between the lists, and
//!    looks where the frame is:
//!    - in a free block: the block is taken, its other frames are freed, and the frame is leaked;
//!    - else it is allocated: a flag on the first frame of its block says that there is one.
//! 3. Whoever frees a block looks at the flags of its first frame with the list's lock held, or the front
//!    cache at work: either that came before step 2, and the frame is found there, or it sees the flag.
//! 4. Whoever frees a range looks at each frame before it has any lock. If anything was poisoned since it
//!    began (a counter says so), it looks again with the lock held.

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::lock;

use super::free_lists::FreeLists;
use crate::count::RefScheme;
use crate::records::{HAS_POISONED, POISONED, head_of};
use crate::words::{FrameKind, FrameNr, Order};

/// What came of [`FramePool::poison`](crate::FramePool::poison).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a frame in use is still read and written by its owner"]
pub enum Poisoned {
    /// The frame was free, and is out of use.
    Leaked,
    /// The frame is allocated, and will be out of use as soon as it is freed. The other frames of its
    /// block will not.
    WhenFreed,
    /// It was poisoned before.
    Already,
    /// The pool has no such frame.
    NoSuchFrame,
}

/// Marks a frame as bad, so that it is never handed out again: see [`FramePool::poison`](crate::FramePool::poison).
pub(crate) fn poison<S: RefScheme>(lists: &FreeLists<S>, frame: FrameNr) -> Poisoned {
    let Some(node) = lists.node_of(frame) else {
        return Poisoned::NoSuchFrame;
    };
    if !lists.meta(frame).set_flag(POISONED) {
        return Poisoned::Already;
    }
    // ORDERING: Release; pairs with the acquire load of who frees a range and looks again: it sees the
    // flag then. That it sees the counter moved, or is waited for, the node's lock makes sure.
    lists.poisonings.fetch_add(1, Ordering::Release);
    // ORDERING: SeqCst; the partner is in `unsplit` of `raw::range`.
    fence(Ordering::SeqCst);
    lists.fronts.with_all(|fronts, _| {
        let mut buddy = lock(&lists.nodes[node].buddy);
        let mut free = Vec::new();
        let has_frame = |head: FrameNr, order: Order| {
            (head.get()..head.get() + order.frames()).contains(&frame.get())
        };
        for front in fronts {
            front.take_where(has_frame, &mut free);
        }
        let is_it = |other: FrameNr| other == frame;
        free.extend(
            buddy
                .depot
                .take_where(is_it)
                .map(|frame| (frame, Order::ZERO)),
        );
        if let Some((head, order)) = buddy.block_with(&lists.table, frame) {
            buddy.take(&lists.table, head, order);
            free.push((head, order));
        }
        if let Some((head, order)) = free.pop() {
            lists.free_but_poisoned(&mut buddy, head, order);
            return Poisoned::Leaked;
        }
        if lists.meta(frame).kind().0 == FrameKind::Leaked {
            // Whoever freed it has seen the flag already.
            return Poisoned::Leaked;
        }
        if let Some(head) = head_of(&lists.table, frame) {
            lists.meta(head).set_flag(HAS_POISONED);
        }
        Poisoned::WhenFreed
    })
}
