use std::fmt;

use crate::supply::census::{Census, Stays};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutOfFrames {
    InUse(Box<Census>),
    /// Enough frames are free or can be evicted, but they are not contiguous.
    Fragmented {
        /// Number of contiguous frames requested.
        nr_wanted: u32,
        /// Number of frames that are free or could be evicted.
        nr_loose: usize,
        census: Box<Census>,
    },
}

impl OutOfFrames {
    pub(crate) fn nr_unclean(&self) -> usize {
        let (Self::InUse(census) | Self::Fragmented { census, .. }) = self;
        census.nr(Stays::Dirty) + census.nr(Stays::Written)
    }
}

impl fmt::Display for OutOfFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(census) => write!(f, "too few frames are free or evictable: {census}"),
            Self::Fragmented {
                nr_wanted,
                nr_loose,
                census,
            } => write!(
                f,
                "no {nr_wanted} contiguous frames: {nr_loose} are free or could be evicted, but \
                 frames in use lie between them: {census}"
            ),
        }
    }
}
