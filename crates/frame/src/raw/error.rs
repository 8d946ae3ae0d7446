//! What can go wrong when a block, or a range of frames, is given back.

use std::fmt;

use crate::words::Order;

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
