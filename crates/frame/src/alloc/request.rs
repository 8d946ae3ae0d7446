use crate::words::Order;

/// Request for a block; see [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest {
    /// Order of the block.
    pub order: Order,
    /// Permitted nodes.
    pub place: Place,
}

impl AllocRequest {
    /// Requests a block of `order` from any node.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            place: Place::Anywhere,
        }
    }
}

/// Nodes from which a block may be allocated. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Preferably the current processor's node, otherwise the nearest one with a free block.
    Anywhere,
    /// Preferably this node, otherwise the nearest one with a free block.
    Prefer(usize),
    /// Only this node.
    Only(usize),
}
