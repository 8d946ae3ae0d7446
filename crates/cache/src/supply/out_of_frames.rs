//! Why there is no frame.

use std::fmt;

use crate::supply::census::{Census, Stays};

/// The reason that there are no frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutOfFrames {
    /// Every frame is in use.
    InUse(Box<Census>),
    /// There are frames, but not so many in a row.
    Fragmented {
        /// How many frames in a row were wanted.
        nr_wanted: u32,
        /// How many are free or could be evicted.
        nr_loose: usize,
        census: Box<Census>,
    },
}

impl OutOfFrames {
    /// How many frames are not clean.
    pub(crate) fn nr_unclean(&self) -> usize {
        let (Self::InUse(census) | Self::Fragmented { census, .. }) = self;
        census.nr(Stays::Dirty) + census.nr(Stays::Written)
    }
}

impl fmt::Display for OutOfFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(census) => write!(f, "every frame is in use: {census}"),
            Self::Fragmented {
                nr_wanted,
                nr_loose,
                census,
            } => write!(
                f,
                "{nr_loose} frames are free or could be evicted, but nowhere {nr_wanted} in a row: \
                 what is in use lies in between: {census}"
            ),
        }
    }
}
