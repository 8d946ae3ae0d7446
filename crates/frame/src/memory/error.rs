//! The errors of making a pool.

use std::{fmt, io};

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
            Self::Memory { bytes, .. } => write!(f, "cannot reserve {bytes} bytes of memory"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::FrameCount { .. } | Self::NodeCount { .. } => None,
            Self::Memory { source, .. } => Some(source),
        }
    }
}
