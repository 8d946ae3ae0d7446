//! How hard a round tries, and what came of one that found nothing.

use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::policy::clock::Marks;

/// How many rounds respect the marks.
pub(super) const GENTLE_ROUNDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// After how many rounds a request for a block also takes leaves in use out of the index.
const SPARING_ROUNDS: u32 = GENTLE_ROUNDS + 1;

/// What came of a round that found nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortage {
    pub(super) reason: OutOfFrames,
    /// Whether there will be more to find once transfers that are under way have ended.
    pub(super) until_transfers_end: bool,
}

impl Shortage {
    /// What has come of both.
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

/// How long a request goes on that finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as it is not sure that every frame is in use.
    Always,
    /// No longer than there are pages that could be evicted but for who holds them, or frames that may become such pages.
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
