//! What a block is to be like, and how far down a node may be emptied for it.

use crate::lists::Buddy;
use crate::words::Order;

/// What a block is to be like; see [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Its order.
    pub order: Order,
    /// Where it is to be.
    pub place: Place,
    /// Whether it may be one of the last frames.
    pub reserve: Reserve,
}

impl AllocRequest {
    /// A block of `order`, anywhere, not from the reserve.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            place: Place::Anywhere,
            reserve: Reserve::Keep,
        }
    }
}

/// In which node of the pool a block is to be. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In the node of the processor that the caller is running on, or else as near as can be.
    Anywhere,
    /// In this node, or else as near as can be.
    Prefer(usize),
    /// In this node.
    Only(usize),
}

/// Whether a block may be one of the frames below the `min` watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// No: they are for those who free memory.
    Keep,
    /// Yes: the caller is about to free memory, and needs some for it.
    Use,
}

/// How far down a node may be emptied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Low,
    Min,
    Zero,
}

/// How many frames can be taken from a node before it is below a mark.
pub(super) fn room(buddy: &Buddy, mark: Mark) -> usize {
    let kept = match mark {
        Mark::Low => buddy.watermarks().low,
        Mark::Min => buddy.watermarks().min,
        Mark::Zero => 0,
    };
    buddy.nr_free().saturating_sub(kept)
}
