//! How hard a round tries, what a round that found nothing has learnt, and when that is enough.

#[cfg(not(loom))]
use std::time::Duration;

use pagewell_sync::thread::Backoff;
#[cfg(not(loom))]
use pagewell_sync::time::Instant;

use crate::supply::census::Census;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::policy::clock::Marks;

/// What a round that found nothing has learnt.
#[derive(Clone, Debug)]
pub(super) struct Shortage {
    /// Why the frames that were looked at stay.
    pub(super) census: Box<Census>,
    /// Whether every frame was looked at.
    pub(super) is_complete: bool,
    /// For a block: how many frames it has, and how many are free or could be evicted.
    pub(super) block: Option<(u32, usize)>,
    /// Whether other threads were just changing what this round wanted to use.
    pub(super) is_raced: bool,
    /// Whether there will be more to find when the transfers under way have ended.
    pub(super) until_transfers_end: bool,
    /// Whether a round that tries harder may find something, whatever other threads do.
    pub(super) may_try_harder: bool,
}

impl Shortage {
    /// What both rounds have learnt.
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

    /// Whether this is all that a request can learn but by waiting: no harder round would find more.
    pub(super) fn is_final(&self, effort: Effort) -> bool {
        self.is_complete && (effort == Effort::HARDEST || !self.may_try_harder)
    }

    /// Whether a frame may become free in a moment.
    pub(super) fn may_change(&self) -> bool {
        match self.block {
            None => self.census.may_change(),
            // What is free or can be evicted does not make a block.
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

/// How many rounds respect the marks: the second finds what the first has taken marks from.
const GENTLE_ROUNDS: u32 = if cfg!(loom) { 1 } else { 2 };

/// After how many rounds a request for a block also takes leaves in use out of the index.
const SPARING_ROUNDS: u32 = GENTLE_ROUNDS + 1;

impl Effort {
    /// The last resort. A model has too few frames for leaves to be in the way of a block.
    pub(super) const HARDEST: Self = if cfg!(loom) {
        Self::Firm
    } else {
        Self::Thorough
    };

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

/// How many frames a request looks at again in the hope that one has become free, at the most; one more round is made in any case.
const LOOKS: usize = 4 << 20;

/// How many rounds a request makes in that hope, and how long, at the least, unless it has looked at [`LOOKS`] frames by then. In
/// so many rounds, each of which lets other threads run, a thread that holds a page while it copies has been on a processor.
const MOMENT_ROUNDS: usize = if cfg!(loom) { 0 } else { 64 };
#[cfg(not(loom))]
const MOMENT: Duration = Duration::from_millis(2);

/// The rest of the patience of a request that has found nothing, though a frame may become free in a moment.
#[derive(Debug, Default)]
pub(in crate::supply) struct Patience {
    backoff: Backoff,
    #[cfg(not(loom))]
    since: Option<Instant>,
}

impl Patience {
    /// Whether to go round again over so many frames. If so, lets other threads run before.
    pub(in crate::supply) fn has_more(&mut self, nr_frames: usize) -> bool {
        let nr_most = (LOOKS / nr_frames.max(1)).max(1);
        let nr_rounds = self.backoff.rounds() as usize;
        let is_over = self.is_moment_over() && nr_rounds >= MOMENT_ROUNDS;
        if is_over || nr_rounds >= nr_most {
            return false;
        }
        self.backoff.wait();
        true
    }

    #[cfg(not(loom))]
    fn is_moment_over(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() >= MOMENT
    }

    /// A model has no time.
    #[cfg(loom)]
    fn is_moment_over(&self) -> bool {
        true
    }
}
