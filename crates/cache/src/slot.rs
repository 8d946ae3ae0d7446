//! The slot: what the index says of one page, in one word. Pure.
//!
//! ```text
//! 63             34 33              3    2       1      0
//! [   frame (30)   ][  version (31)  ][cold][absent][busy]
//! ```
//!
//! | state | busy | absent | frame |
//! |---|---|---|---|
//! | empty | 0 | 1 | none |
//! | present | 0 | 0 | the page's |
//! | claimed, from empty | 1 | 1 | none |
//! | claimed, from present | 1 | 0 | the page's |
//!
//! `absent` is "not up to date", and `cold` is "not marked as referenced": each flag says that a hit must not
//! go on, so that one test against zero covers all of them.
//!
//! Every change of a slot goes through a claim, which sets `busy`; whoever has the claim either restores
//! the word as it was, or stores a new one whose version is one higher. `cold` is a hint of the
//! eviction policy and not a part of the state: it changes without a claim.
//!
//! How far the version is from repeating: a reader is fooled only if, during one copy, its slot is
//! changed exactly a multiple of 2^31 times and then names the same frame again. A change takes a claim, and a
//! fill a read of the storage; at one million fills of one page in a second that is more than half an hour
//! in the middle of one copy. A part of the index that is freed and made again starts over with its
//! versions, but under a new generation, which the reader checks too (see `crate::index`).

use std::fmt;

use pagewell_frame::{FRAME_NR_BITS, FrameNr};

/// A change of this slot is under way.
const BUSY: u64 = 1 << 0;
/// The slot names no frame that holds the page's bytes.
const ABSENT: u64 = 1 << 1;
/// The page was not read since the eviction policy last looked.
const COLD: u64 = 1 << 2;

const VERSION_SHIFT: u32 = 3;
const VERSION_MASK: u64 = ((1 << (FRAME_SHIFT - VERSION_SHIFT)) - 1) << VERSION_SHIFT;
const FRAME_SHIFT: u32 = 64 - FRAME_NR_BITS;

/// No frame: the number that pools never give to one.
const NO_FRAME: u64 = (1 << FRAME_NR_BITS) - 1;

/// The word of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u64);

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum State {
    /// The page is not cached.
    Empty,
    /// The page is in this frame.
    Present(FrameNr),
    /// Someone is changing the slot.
    Busy,
}

impl Slot {
    /// An empty slot that was never changed.
    pub(crate) const EMPTY: Self = Self(NO_FRAME << FRAME_SHIFT | ABSENT | COLD);

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn state(self) -> State {
        if self.0 & BUSY != 0 {
            State::Busy
        } else if self.0 & ABSENT != 0 {
            State::Empty
        } else {
            State::Present(FrameNr::new(self.frame()))
        }
    }

    /// The frame's number, whatever the state; not a frame of the pool unless the page is present.
    #[inline]
    pub(crate) const fn frame(self) -> u32 {
        (self.0 >> FRAME_SHIFT) as u32
    }

    /// Whether an optimistic read may go on: present, settled, and marked as referenced already.
    #[inline]
    pub(crate) const fn is_hot(self) -> bool {
        self.0 & (BUSY | ABSENT | COLD) == 0
    }

    pub(crate) const fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    pub(crate) const fn is_referenced(self) -> bool {
        self.0 & COLD == 0
    }

    pub(crate) const fn with_referenced(self) -> Self {
        Self(self.0 & !COLD)
    }

    pub(crate) const fn without_referenced(self) -> Self {
        Self(self.0 | COLD)
    }

    /// The word while a claim of it lasts.
    pub(crate) const fn claimed(self) -> Self {
        Self(self.0 | BUSY)
    }

    const fn next_version(self) -> u64 {
        self.0.wrapping_add(1 << VERSION_SHIFT) & VERSION_MASK
    }

    /// After a change that put the page into `frame`. It is not marked as referenced: a page that is
    /// read once and never again is the first to go.
    pub(crate) const fn filled(self, frame: FrameNr) -> Self {
        Self((frame.get() as u64) << FRAME_SHIFT | self.next_version() | COLD)
    }

    /// After a change that took the page out.
    pub(crate) const fn emptied(self) -> Self {
        Self(NO_FRAME << FRAME_SHIFT | self.next_version() | ABSENT | COLD)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("state", &self.state())
            .field("version", &((self.0 & VERSION_MASK) >> VERSION_SHIFT))
            .field("referenced", &self.is_referenced())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of every state, at versions around the ends of their range.
    fn slots() -> impl Iterator<Item = Slot> {
        let frames = [0, 1, (1 << FRAME_NR_BITS) - 2];
        let versions = [
            0,
            1,
            (VERSION_MASK >> VERSION_SHIFT) - 1,
            VERSION_MASK >> VERSION_SHIFT,
        ];
        versions.into_iter().flat_map(move |version| {
            let at = |slot: Slot| Slot(slot.0 & !VERSION_MASK | version << VERSION_SHIFT);
            let present = frames.map(|frame| at(Slot::EMPTY.filled(FrameNr::new(frame))));
            [at(Slot::EMPTY)].into_iter().chain(present)
        })
    }

    #[test]
    fn every_change_moves_the_version_and_nothing_else() {
        for slot in slots() {
            let filled = slot.filled(FrameNr::new(7));
            assert_eq!(filled.state(), State::Present(FrameNr::new(7)));
            assert!(!filled.is_referenced() && !filled.is_hot());
            assert_ne!(slot, filled.with_referenced());
            assert_ne!(slot, filled);

            let emptied = slot.emptied();
            assert_eq!(emptied.state(), State::Empty);
            assert_ne!(slot, emptied);
            assert_ne!(slot, emptied.with_referenced());
            assert_ne!(filled, filled.filled(FrameNr::new(7)));
            assert_ne!(filled, filled.emptied().filled(FrameNr::new(7)));
        }
    }

    #[test]
    fn a_claim_is_seen_by_every_reader() {
        for slot in slots() {
            let claimed = slot.claimed();
            assert_eq!(claimed.state(), State::Busy);
            assert!(!claimed.is_hot() && !claimed.with_referenced().is_hot());
            assert_ne!(slot, claimed);
            assert_eq!(claimed.frame(), slot.frame());
        }
    }

    #[test]
    fn the_referenced_mark_leaves_the_state_alone() {
        for slot in slots() {
            assert_eq!(slot.with_referenced().without_referenced(), slot);
            assert_eq!(slot.with_referenced().state(), slot.state());
        }
    }

    #[test]
    fn only_present_and_referenced_pages_are_hot() {
        for slot in slots() {
            let present = matches!(slot.state(), State::Present(_));
            assert!(!slot.is_hot());
            assert_eq!(slot.with_referenced().is_hot(), present);
        }
    }
}
