//! What can go wrong when a pool is made, when a block is asked for, and when one is given back.

use std::{fmt, io};

use crate::config::{MAX_NODES, Watermarks};
use crate::{FRAME_BYTES, MAX_FRAMES, Order};

/// Why a pool could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// No frames at all, fewer than nodes, or more than [`MAX_FRAMES`].
    FrameCount {
        /// How many were asked for.
        nr: usize,
    },
    /// No nodes, or more than 64.
    NodeCount {
        /// How many were asked for.
        nr: usize,
    },
    /// Watermarks that are not in ascending order, or above the size of the pool.
    Watermarks {
        /// What was asked for.
        watermarks: Watermarks,
        /// How many frames the pool was to have.
        nr_frames: usize,
    },
    /// The system did not give the memory.
    Memory {
        /// How many bytes were asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameCount { nr } => write!(
                f,
                "a pool of {nr} frames of {FRAME_BYTES} bytes: it must have at least one a node and at most {MAX_FRAMES}"
            ),
            Self::NodeCount { nr } => {
                write!(f, "{nr} memory nodes: must be 1 to {MAX_NODES}")
            }
            Self::Watermarks {
                watermarks: Watermarks { min, low, high },
                nr_frames,
            } => write!(
                f,
                "watermarks min {min}, low {low}, high {high} of a pool of {nr_frames} frames: each must be at least the one before, and none more than the pool"
            ),
            Self::Memory { bytes, .. } => write!(f, "cannot reserve {bytes} bytes of memory"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::FrameCount { .. } | Self::NodeCount { .. } | Self::Watermarks { .. } => None,
            Self::Memory { source, .. } => Some(source),
        }
    }
}

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
    /// No node that may be used has a block of this order free, or none that is above its watermark.
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

/// What is wrong with a frame that was to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// The range has no frames.
    Empty,
    /// The range does not end in the pool.
    OutsidePool,
    /// The range does not end in the node that it begins in.
    OutsideNode,
    /// The frame is not allocated: it was freed already, or never allocated.
    NotAllocated,
    /// The frame is the first of a block that was not split.
    Unsplit {
        /// The block's order.
        order: Order,
    },
    /// The frame is of a block that begins before it.
    Tail,
    /// The frame is owned by a handle, not by its number.
    OwnedByHandle,
    /// The frame was given up already; it will be freed by the last reference that others hold.
    GivenUp,
    /// The block is of another order than was said.
    WrongOrder {
        /// The block's order.
        order: Order,
    },
    /// The block has fewer references than it has owners: somebody has dropped one that was not theirs.
    CountTooSmall,
    /// The block has as many references as it can count.
    Saturated,
    /// The block has references besides the owner's.
    InUse,
}

/// Why a block, or a range of frames, was not given back; see [`Misuse`] for what, and the fields for
/// where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeError {
    /// What is wrong.
    pub misuse: Misuse,
    /// With which frame; the first one, if with several.
    pub frame: u32,
    /// How many frames of the range were given back all the same: 0, unless two were freeing it at once.
    pub nr_done: usize,
    /// How many of those have references of others, and so are not free yet.
    pub nr_held: usize,
}

impl FreeError {
    pub(crate) fn new(misuse: Misuse, frame: u32) -> Self {
        Self {
            misuse,
            frame,
            nr_done: 0,
            nr_held: 0,
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.frame;
        match self.misuse {
            Misuse::Empty => write!(f, "an empty range at frame {frame}"),
            Misuse::OutsidePool => write!(f, "frame {frame} is outside of the pool"),
            Misuse::OutsideNode => {
                write!(
                    f,
                    "frame {frame} is outside of the node that the range begins in"
                )
            }
            Misuse::NotAllocated => write!(f, "frame {frame} is not allocated"),
            Misuse::Unsplit { order } => write!(
                f,
                "frame {frame} is the first of a block of order {} that was not split",
                order.get()
            ),
            Misuse::Tail => write!(f, "frame {frame} is inside of a block that was not split"),
            Misuse::OwnedByHandle => write!(f, "frame {frame} is owned by a handle"),
            Misuse::GivenUp => write!(
                f,
                "frame {frame} was given up already; others still hold references to it"
            ),
            Misuse::WrongOrder { order } => {
                write!(f, "the block at frame {frame} is of order {}", order.get())
            }
            Misuse::CountTooSmall => {
                write!(f, "frame {frame} has fewer references than owners")
            }
            Misuse::Saturated => {
                write!(f, "frame {frame} has as many references as it can count")
            }
            Misuse::InUse => write!(f, "frame {frame} has references besides the owner's"),
        }?;
        if self.nr_done > 0 {
            write!(f, " ({} others of the range were given back)", self.nr_done)?;
        }
        Ok(())
    }
}

impl std::error::Error for FreeError {}
