//! Why there is no frame.

use std::fmt;

/// Why no frames could be had, though they were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfFrames {
    /// Every frame is in use.
    InUse,
    /// Frames could be had, but not so many in a row.
    Fragmented {
        /// How many frames in a row were wanted.
        nr_wanted: u32,
        /// How many are free or could be evicted.
        nr_loose: usize,
    },
}

impl fmt::Display for OutOfFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => write!(f, "every frame is in use"),
            Self::Fragmented {
                nr_wanted,
                nr_loose,
            } => write!(
                f,
                "{nr_loose} frames are free or could be evicted, but nowhere {nr_wanted} in a row: \
                 what is in use lies in between"
            ),
        }
    }
}
