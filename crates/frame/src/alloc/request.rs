//! The properties of a requested block.

use crate::words::Order;

/// What a block is to be like; see [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Its order.
    pub order: Order,
    /// Where it is to be.
    pub place: Place,
}

impl AllocRequest {
    /// A block of `order`, anywhere.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            place: Place::Anywhere,
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
