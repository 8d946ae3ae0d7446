//! Effort of a reclaim pass, result of a pass that found nothing, and condition for giving up.

use std::time::Duration;

use pagewell_sync::scaled;
use pagewell_sync::thread::Backoff;
use pagewell_sync::time::Instant;

use crate::supply::census::{Census, OutOfFrames};
use crate::supply::clock::Marks;

#[derive(Clone, Debug)]
pub(super) struct Shortage {
    pub(super) census: Box<Census>,
    /// Whether this pass alone has scanned every frame, or has made its last try for a block.
    pub(super) is_complete: bool,
    /// For a block: the numbers of frames that it needs, and that are free or could be evicted.
    pub(super) block: Option<(u32, usize)>,
    /// Whether other threads were changing frames that this pass tried to use.
    pub(super) is_raced: bool,
    /// Whether a later pass may find more after transfers in flight have ended.
    pub(super) until_transfers_end: bool,
    /// Whether a later pass may find more, since this one has cleared accessed bits, or since a
    /// later one makes more effort.
    pub(super) may_try_harder: bool,
}

impl Shortage {
    pub(super) fn and(self, other: &Self) -> Self {
        let block = match (self.block, other.block) {
            (Some((nr_wanted, nr_loose)), Some((_, more))) => Some((nr_wanted, nr_loose + more)),
            (block, _) => block,
        };
        Self {
            census: Box::new(self.census.and(&other.census)),
            is_complete: self.is_complete && other.is_complete,
            block,
            is_raced: self.is_raced || other.is_raced,
            until_transfers_end: self.until_transfers_end || other.until_transfers_end,
            may_try_harder: self.may_try_harder || other.may_try_harder,
        }
    }

    /// Whether the pass was complete, and later ones find more only if other threads free frames.
    pub(super) fn is_final(&self, effort: Effort) -> bool {
        self.is_complete && (effort == Effort::HARDEST || !self.may_try_harder)
    }

    pub(super) fn may_change(&self) -> bool {
        match self.block {
            None => self.census.may_change(),
            // Frames that are freed may complete a block.
            Some(_) => self.is_raced || self.until_transfers_end || self.census.may_change(),
        }
    }

    pub(super) fn into_reason(self) -> OutOfFrames {
        let census = self.census;
        match self.block {
            Some((nr_wanted, nr_loose)) if nr_loose >= nr_wanted as usize => {
                OutOfFrames::Fragmented {
                    nr_wanted,
                    nr_loose,
                    census,
                }
            }
            _ => OutOfFrames::InUse(census),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Clears the accessed bits of pages that have them, and evicts the other pages.
    Gentle,
    Firm,
    /// For a block, also evicts all pages of a leaf, wherever they are, and then the leaf.
    Thorough,
}

/// Number of gentle passes: the second evicts pages whose accessed bits the first has cleared.
const GENTLE_ROUNDS: u32 = scaled(2, 1);

/// Number of passes after which a request for a block also evicts the pages of leaves in use.
const SPARING_ROUNDS: u32 = GENTLE_ROUNDS + 1;

impl Effort {
    /// A model has too few frames to empty leaves for a block.
    pub(super) const HARDEST: Self = scaled(Self::Thorough, Self::Firm);

    pub(super) const fn of_round(round: u32) -> Self {
        if round < GENTLE_ROUNDS {
            Self::Gentle
        } else if round < SPARING_ROUNDS {
            Self::Firm
        } else {
            Self::HARDEST
        }
    }

    pub(super) const fn marks(self) -> Marks {
        match self {
            Self::Gentle => Marks::Respected,
            Self::Firm | Self::Thorough => Marks::Ignored,
        }
    }
}

/// Maximum number of frames that a request scans again because a frame may have become free. It
/// makes at least one such pass.
const LOOKS: usize = 4 << 20;

/// Minimum number of such passes, which are made for at least `MOMENT`. Neither minimum applies
/// once they have scanned [`LOOKS`] frames. Each pass lets other threads run, so after this number
/// of passes a thread that holds a reference while it copies has usually been scheduled.
const MOMENT_ROUNDS: usize = scaled(64, 0);
const MOMENT: Duration = scaled(Duration::from_millis(2), Duration::ZERO);

#[derive(Debug, Default)]
pub(in crate::supply) struct Patience {
    backoff: Backoff,
    since: Option<Instant>,
}

impl Patience {
    /// Returns `true` if the request must scan `nr_frames` frames again, after a spin or yield.
    pub(in crate::supply) fn has_more(&mut self, nr_frames: usize) -> bool {
        let nr_most = (LOOKS / nr_frames.max(1)).max(1);
        let nr_rounds = self.backoff.rounds() as usize;
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= MOMENT && nr_rounds >= MOMENT_ROUNDS;
        if is_over || nr_rounds >= nr_most {
            return false;
        }
        self.backoff.wait();
        true
    }
}
