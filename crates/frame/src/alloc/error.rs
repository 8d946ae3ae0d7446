use std::fmt;

use crate::words::Order;

/// Error of [`FramePool::alloc_by`](crate::FramePool::alloc_by).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// The pool has no node with this number.
    NoSuchNode {
        /// Requested node.
        node: usize,
        /// Number of nodes of the pool.
        nr_nodes: usize,
    },
    /// No permitted node has a free block of this order.
    Exhausted {
        /// Requested order.
        order: Order,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode { node, nr_nodes } => {
                write!(
                    f,
                    "cannot allocate from node {node}: the pool has {nr_nodes}, counted from 0"
                )
            }
            Self::Exhausted { order } => {
                write!(f, "cannot allocate: no free block of order {}", order.get())
            }
        }
    }
}

impl std::error::Error for AllocError {}
