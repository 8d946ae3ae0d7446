//! What holds the frames: counted in a lap over them, to say why none became free, and whether one may in a moment.

use std::fmt;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameMeta, Order};

use crate::base::page_state::PageState;

/// Why a frame did not become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// It is free already, or part of a block that is counted with its first frame.
    Free,
    /// Its page is dirty.
    Dirty,
    /// Its page was given to the storage, and is not durable.
    Written,
    /// Its page is pinned to be changed.
    Locked,
    /// Its page has other references than the index's: pins, or readers for a moment.
    Held,
    /// Its page was referenced lately, and has lost its mark now.
    Marked,
    /// It is a leaf in use.
    Leaf,
    /// It is a page, or a table, of memory spaces.
    OfSpaces,
    /// It is of a range: of a program that manages it.
    Raw,
    /// It is allocated, and not a page yet: on its way in, set aside for a write, or withheld.
    Owned,
    /// Another thread was changing it.
    Raced,
}

const NR_REASONS: usize = Stays::Raced as usize + 1;

impl Stays {
    /// What keeps a frame from being evicted, as far as its record says: the record alone is read, and nothing claimed, so hits on
    /// the page go on. None if an eviction may succeed. Also what the record says that the frame is.
    pub(crate) fn of<S: RefScheme>(record: &FrameMeta<S>) -> (Option<Self>, FrameKind, Order) {
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

/// So many pages may be held by readers for a moment, one each, and more are pinned.
const READERS: usize = 1024;

/// How many frames stay, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// How many frames were asked for a reason.
    nr_frames: usize,
    by_reason: [usize; NR_REASONS],
    /// How many of those that are owned are withheld for memory outside of frames.
    nr_withheld: usize,
}

impl Census {
    /// A census of so many frames, of which so many are withheld, before the first was looked at.
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

    /// Counts `nr` frames.
    pub(crate) fn note(&mut self, stays: Stays, nr: u32) {
        self.by_reason[stays as usize] += nr as usize;
    }

    /// Both together.
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

    /// Whether pages have lost their marks, so that another round finds them.
    pub(crate) fn has_unmarked(&self) -> bool {
        self.nr(Stays::Marked) != 0
    }

    /// How many frames are on their way in, or set aside for a write.
    fn nr_moving(&self) -> usize {
        self.nr(Stays::Owned).saturating_sub(self.nr_withheld)
    }

    /// Whether a frame may become free in a moment, by what other threads are just doing. Pages do not become clean by waiting, and
    /// pins are the program's.
    pub(crate) fn may_change(&self) -> bool {
        let nr_held = self.nr(Stays::Held);
        self.nr(Stays::Raced) != 0
            || self.has_unmarked()
            || self.nr_moving() != 0
            || (1..=READERS).contains(&nr_held)
    }

    /// How many frames have pinned pages: what remains when all else is counted.
    fn nr_pinned(&self) -> usize {
        let all: usize = self.by_reason.iter().sum();
        self.nr_frames
            .saturating_sub(all - self.nr(Stays::Held) - self.nr(Stays::Raced))
    }
}

/// The reasons that there are, with numbers of frames.
impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nr_withheld = self.nr_withheld.min(self.nr(Stays::Owned));
        let parts = [
            (self.nr(Stays::Dirty), "dirty"),
            (self.nr(Stays::Written), "written and not yet durable"),
            (self.nr_pinned(), "pinned"),
            (self.nr(Stays::Locked), "pinned to be changed"),
            (self.nr(Stays::OfSpaces), "of memory spaces"),
            (self.nr(Stays::Raw), "managed by the program"),
            (self.nr(Stays::Leaf) + nr_withheld, "of indices"),
            (self.nr_moving(), "on their way in"),
            (self.nr(Stays::Free) + self.nr(Stays::Marked), "free again"),
        ];
        write!(f, "of {} frames", self.nr_frames)?;
        for (nr, what) in parts.into_iter().filter(|(nr, _)| *nr != 0) {
            write!(f, ", {nr} {what}")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
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
            "of 100 frames, 16 dirty, 1 written and not yet durable, 67 pinned, 10 of memory spaces, 3 of indices, 3 on their way in"
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
