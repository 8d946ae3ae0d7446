use std::{fmt, io};

use crate::words::{FRAME_BYTES, MAX_FRAMES, MAX_NODES};

/// Error of creating a pool.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The number of frames is 0, less than the number of nodes, or more than [`MAX_FRAMES`].
    FrameCount {
        /// Requested number.
        nr: usize,
    },
    /// The number of nodes is 0 or more than 64.
    NodeCount {
        /// Requested number.
        nr: usize,
    },
    /// The system refused the memory.
    Memory {
        /// Requested number of bytes.
        bytes: usize,
        /// Error of the system.
        source: io::Error,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameCount { nr } => write!(
                f,
                "cannot create a pool of {nr} frames of {FRAME_BYTES} bytes: \
                 it needs at least one per node and at most {MAX_FRAMES}"
            ),
            Self::NodeCount { nr } => {
                write!(
                    f,
                    "cannot create a pool with {nr} memory nodes: must be 1 to {MAX_NODES}"
                )
            }
            Self::Memory { bytes, .. } => {
                let limits = pagewell_sync::system::memory_limits();
                write!(f, "cannot reserve {bytes} bytes of memory: {limits}")
            }
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
