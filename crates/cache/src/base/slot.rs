//! Slot: the index entry of one page, in one word. A plain value.
//!
//! ```text
//! 63                      34 33              3    2       1        0
//! [   frame or ghost (30)   ][  version (31)  ][busy][present][hot]
//! ```
//!
//! | state | hot | present | busy | frame or ghost |
//! |---|---|---|---|---|
//! | empty | 0 | 0 | 0 | the ghost of the page, or 0 |
//! | present | 0 or 1 | 1 | 0 | the page's frame |
//! | claimed, from empty | 0 | 0 | 1 | as before |
//! | claimed, from present | 0 | 1 | 1 | the page's frame |
//!
//! A word of zeros is an empty slot. A ghost is the history of an evicted page, used by the
//! eviction policy at the page's next fill; other code treats the slot as empty. `hot` is the
//! page's accessed bit, a hint for the policy that changes without a claim. It is clear in empty
//! and claimed slots, and so is also the condition of an optimistic read.
//!
//! The holder of a claim restores the word, or stores a new one whose version is one higher.
//! [`crate::index::claim`] lists the changes that need no claim.
//!
//! Repetition: a reader misses a change only if, during one copy, its slot is changed exactly a
//! multiple of 2^31 times and then names the same frame again. At thirty million writes of one page
//! per second, this takes more than a minute. A leaf that is created again starts above the
//! versions of all slots in removed leaves ([`crate::index`]). A token, which is kept for longer
//! than a copy, also has a generation ([`crate::index::lives`]).

use std::fmt;

use pagewell_frame::{FRAME_NR_BITS, FrameNr};
use pagewell_policy::Ghost;
use pagewell_sync::scaled;

const HOT: u64 = 1 << 0;
const PRESENT: u64 = 1 << 1;
const BUSY: u64 = 1 << 2;

const VERSION_SHIFT: u32 = 3;
/// Number of version bits; few in models, so that versions start over within an execution.
const VERSION_BITS: u32 = scaled(FRAME_SHIFT - VERSION_SHIFT, 3);
const VERSION_MASK: u64 = ((1 << VERSION_BITS) - 1) << VERSION_SHIFT;
const FRAME_SHIFT: u32 = 64 - FRAME_NR_BITS;

/// Bit of the frame-number field, set if the other bits are a ghost.
const HAS_GHOST: u32 = 1 << Ghost::BITS;
const _: () = assert!(Ghost::BITS < FRAME_NR_BITS);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum State {
    Empty,
    Present(FrameNr),
    Busy,
}

impl Slot {
    /// Returns an empty slot with the low 31 bits of `version`.
    pub(crate) const fn empty_at(version: u64) -> Self {
        Self(version << VERSION_SHIFT & VERSION_MASK)
    }

    /// Returns how far this slot's version is ahead of the low 31 bits of `version`.
    pub(crate) const fn versions_since(self, version: u64) -> u64 {
        let version = version << VERSION_SHIFT & VERSION_MASK;
        ((self.0 & VERSION_MASK).wrapping_sub(version) & VERSION_MASK) >> VERSION_SHIFT
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn state(self) -> State {
        if self.is_busy() {
            State::Busy
        } else if self.0 & PRESENT != 0 {
            State::Present(FrameNr::new(self.frame()))
        } else {
            State::Empty
        }
    }

    /// Returns the frame number; it has no meaning unless the page is present.
    #[inline]
    pub(crate) const fn frame(self) -> u32 {
        (self.0 >> FRAME_SHIFT) as u32
    }

    #[inline]
    pub(crate) const fn is_hot(self) -> bool {
        self.0 & HOT != 0
    }

    pub(crate) const fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// Whether the slot was claimed while it was empty, as for a fill.
    pub(crate) const fn is_claimed_empty(self) -> bool {
        self.0 & (BUSY | PRESENT) == BUSY
    }

    /// Returns the word without the bits `busy` and `hot`.
    #[inline(always)]
    pub(crate) const fn of_page(self) -> u64 {
        self.0 & !(HOT | BUSY)
    }

    /// Whether the change from `before` to this slot made the versions start over.
    #[inline(always)]
    pub(crate) const fn starts_over(self, before: Self) -> bool {
        self.0 & VERSION_MASK < before.0 & VERSION_MASK
    }

    pub(crate) fn with_referenced(self) -> Self {
        debug_assert!(matches!(self.state(), State::Present(_)));
        Self(self.0 | HOT)
    }

    pub(crate) const fn without_referenced(self) -> Self {
        Self(self.0 & !HOT)
    }

    pub(crate) const fn claimed(self) -> Self {
        Self(self.0 & !HOT | BUSY)
    }

    const fn next_version(self) -> u64 {
        self.0.wrapping_add(1 << VERSION_SHIFT) & VERSION_MASK
    }

    /// Returns the slot after a fill into `frame`. The accessed bit is clear: a page that is read
    /// only once is evicted early.
    pub(crate) const fn filled(self, frame: FrameNr) -> Self {
        Self((frame.get() as u64) << FRAME_SHIFT | self.next_version() | PRESENT)
    }

    /// Returns the slot after a change of the page's bytes in place. The accessed bit stays.
    pub(crate) const fn rewritten(self) -> Self {
        Self(self.0 & !VERSION_MASK | self.next_version())
    }

    /// Returns the slot after a move of the page to another `frame`. The accessed bit stays.
    pub(crate) const fn moved(self, frame: FrameNr) -> Self {
        Self(self.filled(frame).0 | self.0 & HOT)
    }

    pub(crate) fn emptied(self, ghost: Option<Ghost>) -> Self {
        let ghost = ghost.map_or(0, |ghost| HAS_GHOST | ghost.bits());
        Self(u64::from(ghost) << FRAME_SHIFT | self.next_version())
    }

    pub(crate) fn ghost(self) -> Option<Ghost> {
        let word = self.frame();
        let has_ghost = self.0 & PRESENT == 0 && word & HAS_GHOST != 0;
        has_ghost.then(|| Ghost::from_bits(word))
    }

    pub(crate) fn without_ghost(self) -> Self {
        debug_assert_eq!(self.state(), State::Empty);
        Self(self.0 & VERSION_MASK)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("state", &self.state())
            .field("version", &((self.0 & VERSION_MASK) >> VERSION_SHIFT))
            .field("hot", &self.is_hot())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST_VERSION: u64 = VERSION_MASK >> VERSION_SHIFT;

    fn slots() -> impl Iterator<Item = Slot> {
        let frames = [0, 1, (1 << FRAME_NR_BITS) - 2];
        let versions = [0, 1, LAST_VERSION - 1, LAST_VERSION];
        versions.into_iter().flat_map(move |version| {
            let empty = Slot::empty_at(version);
            let before = Slot::empty_at(version.wrapping_sub(1));
            let present = frames.map(|frame| before.filled(FrameNr::new(frame)));
            let hot = present.map(Slot::with_referenced);
            let ghosts = [0, 1, u32::MAX].map(|bits| before.emptied(Some(Ghost::from_bits(bits))));
            [empty].into_iter().chain(ghosts).chain(present).chain(hot)
        })
    }

    #[test]
    fn zeros_are_an_empty_slot() {
        assert_eq!(Slot::from_bits(0), Slot::empty_at(0));
        assert_eq!(Slot::from_bits(0).state(), State::Empty);
        assert!(!Slot::from_bits(0).is_hot());
    }

    #[test]
    fn every_change_moves_the_version() {
        for slot in slots() {
            let filled = slot.filled(FrameNr::new(7));
            assert_eq!(filled.state(), State::Present(FrameNr::new(7)));
            assert!(!filled.is_hot());
            let emptied = slot.emptied(None);
            assert_eq!(emptied.state(), State::Empty);
            for changed in [filled, filled.with_referenced(), emptied] {
                assert_ne!(changed, slot);
                assert_ne!(changed.without_referenced(), slot.without_referenced());
                let version = slot.versions_since(0);
                assert_eq!(changed.versions_since(version), 1);
            }
            assert_ne!(filled.emptied(None).filled(FrameNr::new(7)), filled);
            let hot = filled.with_referenced();
            for page in [filled, hot] {
                let changed = [page.rewritten(), page.moved(FrameNr::new(9))];
                for (after, frame) in changed.into_iter().zip([7, 9]) {
                    assert_eq!(after.state(), State::Present(FrameNr::new(frame)));
                    assert_eq!(after.is_hot(), page.is_hot());
                    assert_eq!(
                        after.versions_since(0),
                        page.emptied(None).versions_since(0)
                    );
                }
            }
        }
    }

    #[test]
    fn a_ghost_stays_until_the_page_comes_back_and_is_no_page() {
        for slot in slots() {
            for bits in [0, 1, (1 << Ghost::BITS) - 1] {
                let ghost = Ghost::from_bits(bits);
                let emptied = slot.emptied(Some(ghost));
                assert_eq!(emptied.state(), State::Empty);
                assert_eq!(emptied.ghost(), Some(ghost));
                assert_eq!(emptied.without_ghost(), slot.emptied(None));
                assert_eq!(emptied.without_ghost().ghost(), None);
                let filled = emptied.filled(FrameNr::new(7));
                assert_eq!(filled.ghost(), None);
                assert_eq!(filled, slot.emptied(None).filled(FrameNr::new(7)));
            }
            assert_eq!(Slot::from_bits(0).ghost(), None);
        }
    }

    #[test]
    fn a_claim_is_seen_by_every_reader_and_keeps_the_rest() {
        for slot in slots() {
            let claimed = slot.claimed();
            assert_eq!(claimed.state(), State::Busy);
            assert!(!claimed.is_hot());
            assert_ne!(claimed, slot);
            assert_eq!(claimed.frame(), slot.frame());
            assert_eq!(claimed.ghost(), slot.ghost());
            assert_eq!(claimed.emptied(None), slot.emptied(None));
        }
    }

    #[test]
    fn only_present_settled_and_referenced_pages_are_hot() {
        for slot in slots() {
            match slot.state() {
                State::Present(_) => {
                    assert!(slot.with_referenced().is_hot());
                    assert!(!slot.without_referenced().is_hot());
                    assert_eq!(slot.with_referenced().state(), slot.state());
                }
                State::Empty | State::Busy => assert!(!slot.is_hot()),
            }
        }
    }

    #[test]
    fn versions_start_over_at_the_end_of_their_range_and_nowhere_else() {
        for slot in slots() {
            let is_last = slot.versions_since(0) == LAST_VERSION;
            for after in [
                slot.filled(FrameNr::new(3)),
                slot.rewritten(),
                slot.moved(FrameNr::new(4)),
                slot.emptied(None),
            ] {
                assert_eq!(after.starts_over(slot), is_last);
            }
            for same in [slot, slot.claimed()] {
                assert!(!same.starts_over(slot));
            }
        }
    }

    #[test]
    fn claims_and_marks_say_nothing_of_the_page() {
        for slot in slots() {
            assert_eq!(slot.claimed().of_page(), slot.of_page());
            assert_eq!(slot.without_referenced().of_page(), slot.of_page());
            for changed in [slot.rewritten(), slot.moved(FrameNr::new(5))] {
                assert_ne!(changed.of_page(), slot.of_page());
            }
        }
    }

    #[test]
    fn versions_are_counted_across_the_end_of_their_range() {
        let slot = Slot::empty_at(LAST_VERSION).emptied(None).emptied(None);
        assert_eq!(slot.versions_since(LAST_VERSION), 2);
        assert_eq!(slot.versions_since(LAST_VERSION + (5 << 31)), 2);
    }
}
