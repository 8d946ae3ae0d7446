//! How hard a round tries, and the outcome of a round that found nothing.

use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::policy::clock::Marks;

/// How many rounds respect the marks.
pub(super) const GENTLE_ROUNDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// After how many rounds a request for a block also takes leaves in use out of the index.
const SPARING_ROUNDS: u32 = GENTLE_ROUNDS + 1;

/// The outcome of a round that found nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortage {
    pub(super) reason: OutOfFrames,
    /// Whether there will be more to find when the transfers under way have ended.
    pub(super) until_transfers_end: bool,
}

impl Shortage {
    /// The outcome of both rounds.
    pub(super) fn and(self, other: Self) -> Self {
        let reason = match (self.reason, other.reason) {
            (
                OutOfFrames::Fragmented {
                    nr_wanted,
                    nr_loose,
                },
                OutOfFrames::Fragmented { nr_loose: more, .. },
            ) => OutOfFrames::Fragmented {
                nr_wanted,
                nr_loose: nr_loose + more,
            },
            (OutOfFrames::InUse, reason) | (reason, OutOfFrames::InUse) => reason,
        };
        Self {
            reason,
            until_transfers_end: self.until_transfers_end || other.until_transfers_end,
        }
    }
}

/// How long a request that finds nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it is sure that every frame is in use.
    Always,
    /// Only while there are pages that could be evicted if nobody held them, or frames that may become such pages.
    WhileHopeful,
}

/// What a round does to pages and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Pages that are marked only lose their marks.
    Gentle,
    /// Marks are ignored.
    Firm,
    /// For the sake of a block, the pages of a leaf are evicted wherever they are, so that the leaf can go.
    Thorough,
}

impl Effort {
    pub(super) const fn of_round(round: u32) -> Self {
        if round < GENTLE_ROUNDS {
            Self::Gentle
        } else if round < SPARING_ROUNDS {
            Self::Firm
        } else {
            Self::Thorough
        }
    }

    pub(super) const fn marks(self) -> Marks {
        match self {
            Self::Gentle => Marks::Respected,
            Self::Firm | Self::Thorough => Marks::Ignored,
        }
    }
}
