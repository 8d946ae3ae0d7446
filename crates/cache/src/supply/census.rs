//! Reclaim statistics: reasons why frames were not freed in a reclaim pass ([`Census`]), and the
//! error of a request that got no frame ([`OutOfFrames`]).

use std::fmt;

use pagewell_frame::{FrameKind, FrameMeta, Order};

use crate::base::page_state::PageState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// The frame is free, or a tail. In a request for a block, also a frame that could be evicted.
    Free,
    Dirty,
    Written,
    /// The page is pinned for writing.
    Locked,
    /// The page has references of pins, of hazard protection, or short-lived ones of readers.
    Held,
    /// The page was recently accessed, and its accessed bit is now clear.
    Marked,
    /// The frame is a leaf in use.
    Leaf,
    OfSpaces,
    /// The frame belongs to a range that the program manages.
    Raw,
    /// The frame is being filled, set aside (for a write or a leaf, for example), or withheld.
    Owned,
    /// Another thread was changing the frame or its slot, or closing the leaf's file.
    Raced,
}

const NR_REASONS: usize = Stays::Raced as usize + 1;

impl Stays {
    /// Returns the reason why a frame cannot be evicted, if any, and kind and order of its block.
    /// Reads only the metadata, so hits are not affected.
    pub(crate) fn of(record: &FrameMeta) -> (Option<Self>, FrameKind, Order) {
        let (kind, order) = record.kind();
        let stays = match kind {
            FrameKind::Page => {
                let state = PageState::of(record);
                match record.count() {
                    _ if state.is_dirty() => Some(Self::Dirty),
                    _ if state.is_unclean() => Some(Self::Written),
                    _ if !state.may_go() => Some(Self::Locked),
                    0 => Some(Self::Raced),
                    1 => None,
                    _ => Some(Self::Held),
                }
            }
            FrameKind::Leaf => match record.count() {
                0 => Some(Self::Raced),
                1 => None,
                _ => Some(Self::Leaf),
            },
            FrameKind::Owned => Some(Self::Owned),
            FrameKind::Free | FrameKind::Front | FrameKind::Tail => Some(Self::Free),
            FrameKind::Anon | FrameKind::Table => Some(Self::OfSpaces),
            FrameKind::Raw => Some(Self::Raw),
        };
        (stays, kind, order)
    }
}

/// Maximum number of referenced frames for which a request assumes readers, with references for a
/// few steps. If there are more, it assumes pins, and does not wait.
const READERS: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    nr_frames: usize,
    by_reason: [usize; NR_REASONS],
    /// Number of `Owned` frames that are withheld.
    nr_withheld: usize,
}

impl Census {
    pub(crate) fn of(nr_frames: usize, nr_withheld: usize) -> Self {
        Self {
            nr_frames,
            by_reason: [0; NR_REASONS],
            nr_withheld,
        }
    }

    pub(crate) fn nr_frames(&self) -> usize {
        self.nr_frames
    }

    pub(crate) fn note(&mut self, stays: Stays, nr: u32) {
        self.by_reason[stays as usize] += nr as usize;
    }

    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.nr_frames += other.nr_frames;
        self.nr_withheld += other.nr_withheld;
        for (mine, theirs) in self.by_reason.iter_mut().zip(other.by_reason) {
            *mine += theirs;
        }
        self
    }

    pub(crate) fn nr(&self, stays: Stays) -> usize {
        self.by_reason[stays as usize]
    }

    /// Whether the pass has cleared accessed bits. Block requests count such pages as `Free`.
    pub(crate) fn has_unmarked(&self) -> bool {
        self.nr(Stays::Marked) != 0
    }

    fn nr_moving(&self) -> usize {
        self.nr(Stays::Owned).saturating_sub(self.nr_withheld)
    }

    /// Whether a frame may soon be free, because of cleared accessed bits or operations in
    /// progress. No wait in this layer cleans a page or ends a pin.
    pub(crate) fn may_change(&self) -> bool {
        let nr_held = self.nr(Stays::Held);
        self.nr(Stays::Raced) != 0
            || self.has_unmarked()
            || self.nr_moving() != 0
            || (1..=READERS).contains(&nr_held)
    }

    fn nr_pinned(&self) -> usize {
        let all: usize = self.by_reason.iter().sum();
        self.nr_frames
            .saturating_sub(all - self.nr(Stays::Held) - self.nr(Stays::Raced))
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nr_withheld = self.nr_withheld.min(self.nr(Stays::Owned));
        let parts = [
            (self.nr(Stays::Dirty), "dirty"),
            (self.nr(Stays::Written), "unsynced"),
            (self.nr_pinned(), "pinned"),
            (self.nr(Stays::Locked), "pinned for writing"),
            (self.nr(Stays::OfSpaces), "of memory spaces"),
            (self.nr(Stays::Raw), "managed by the program"),
            (self.nr(Stays::Leaf) + nr_withheld, "used by indexes"),
            (self.nr_moving(), "being filled"),
            (
                self.nr(Stays::Free) + self.nr(Stays::Marked),
                "free or evictable",
            ),
        ];
        write!(f, "of {} frames", self.nr_frames)?;
        for (nr, what) in parts.into_iter().filter(|(nr, _)| *nr != 0) {
            write!(f, ", {nr} {what}")?;
        }
        Ok(())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_pinned() {
        let mut census = Census::of(100, 2);
        census.note(Stays::Dirty, 16);
        census.note(Stays::Written, 1);
        census.note(Stays::Owned, 5);
        census.note(Stays::Leaf, 1);
        census.note(Stays::Held, 16);
        census.note(Stays::OfSpaces, 10);
        assert_eq!(
            census.to_string(),
            "of 100 frames, 16 dirty, 1 unsynced, 67 pinned, 10 of memory spaces, 3 used by \
             indexes, 3 being filled"
        );
    }

    #[test]
    fn dirty_pages_and_pins_do_not_go_by_waiting() {
        let mut census = Census::of(100_000, 3);
        census.note(Stays::Dirty, 50_000);
        census.note(Stays::Leaf, 90);
        census.note(Stays::Owned, 3);
        assert!(!census.may_change());
        let mut held = census;
        held.note(Stays::Held, 2000);
        assert!(!held.may_change(), "more than are held for a moment");
        for stays in [Stays::Held, Stays::Raced, Stays::Owned, Stays::Marked] {
            let mut other = census;
            other.note(stays, 1);
            assert!(other.may_change(), "{stays:?}");
        }
    }
}
