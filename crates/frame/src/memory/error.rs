//! What can go wrong when a pool is made.

use std::{fmt, io};

use super::watermarks::Watermarks;
use crate::words::{FRAME_BYTES, MAX_FRAMES, MAX_NODES};

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
