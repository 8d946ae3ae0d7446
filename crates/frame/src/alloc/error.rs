//! The errors of a request for a block.

use std::fmt;

use crate::words::Order;

/// Why [`FramePool::alloc_by`](crate::FramePool::alloc_by) gave no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// The pool has no node of this number.
    NoSuchNode {
        /// The number asked for.
        node: usize,
        /// How many the pool has.
        nr_nodes: usize,
    },
    /// No node that may be used has a block of this order free.
    Exhausted {
        /// The order asked for.
        order: Order,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode { node, nr_nodes } => {
                write!(f, "node {node} of a pool of {nr_nodes}, counted from 0")
            }
            Self::Exhausted { order } => {
                write!(f, "no free block of order {}", order.get())
            }
        }
    }
}

impl std::error::Error for AllocError {}
