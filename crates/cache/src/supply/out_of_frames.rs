//! Why there is no frame.

use std::fmt;

/// The reason that there are no frames, after a wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOfFrames {
    /// Every frame is in use.
    InUse,
    /// There are frames, but not so many in a row.
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
