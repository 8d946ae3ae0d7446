//! Page-table entry: the state of one page in one word.
//!
//! ```text
//! 63 62           33 32              6    5        4          3          2         1     0
//! [0][   frame (30)  ][  version (27)  ][dirty][writable][readable][migration][cold][hot]
//! ```
//!
//! | state | migration | cold | hot | frame |
//! |---|---|---|---|---|
//! | empty | 0 | 0 | 0 | 0 |
//! | present, readable | 0 | 0 | 1 | the page's |
//! | present, but not readable | 0 | 1 | 0 | the page's |
//! | migration | 1 | 0 | 0 | the one that the page is being moved out of |
//! | claimed | 1 | 1 | 0 | as before |
//!
//! A read tests only `hot`. No other entry and no pin refers to a `writable` page, so it is written
//! in place without further checks. A migration entry keeps `readable`, `writable` and `dirty` of
//! the entry that it replaces. The top bit is 0 for the signed shift in [`Pte::frame_start`].
//!
//! Every change of the page's bytes, of bits or of the frame is made under a claim (exceptions:
//! [`crate::words::claim`]) and increments the version.
//!
//! Repeating versions. A reader misses a change only if, during the copy of at most a page, its
//! entry is claimed and changed exactly a multiple of 2^27 times, and is then equal otherwise.
//! Reuse of a freed table needs no version: a copying read also checks the sequence counter of its
//! directory ([`crate::tables::of_space`]), a view the directory's entry ([`crate::words::pmd`]).

use std::fmt;

use pagewell_frame::{FRAME_BYTES, FRAME_NR_BITS, FrameNr};

const HOT: u64 = 1 << 0;
const COLD: u64 = 1 << 1;
const MIGRATION: u64 = 1 << 2;
const READABLE: u64 = 1 << 3;
const WRITABLE: u64 = 1 << 4;
const DIRTY: u64 = 1 << 5;

const STATE: u64 = HOT | COLD | MIGRATION;

const BUSY: u64 = COLD | MIGRATION;

const MARKS: u64 = READABLE | WRITABLE | DIRTY;

// Entries of tables and directories have frame and version in the same bits.
pub(super) const VERSION_SHIFT: u32 = 6;
pub(super) const FRAME_SHIFT: u32 = 63 - FRAME_NR_BITS;
pub(super) const VERSION_MASK: u64 = ((1 << (FRAME_SHIFT - VERSION_SHIFT)) - 1) << VERSION_SHIFT;

/// Returns the byte offset in the pool of the frame that `word` names. The top bit must be zero.
#[inline(always)]
pub(super) const fn start_in_pool(word: u64) -> usize {
    // A signed shift, so that the compiler keeps the short negative mask. No value is negative.
    let shifted = (word as i64) >> (FRAME_SHIFT - FRAME_BYTES.trailing_zeros());
    (shifted & -(FRAME_BYTES as i64)) as usize
}

/// Returns the version, in its place, that an entry has after a change of `word`.
#[inline(always)]
pub(super) const fn next_version(word: u64) -> u64 {
    word.wrapping_add(1 << VERSION_SHIFT) & VERSION_MASK
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pte(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum State {
    Empty,
    Present(FrameNr),
    /// The page is being moved out of this frame.
    Migration(FrameNr),
    Busy,
}

/// Accesses that an area permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protection {
    /// No access.
    None,
    /// Read.
    Read,
    /// Read and write.
    #[default]
    ReadWrite,
}

impl Protection {
    pub(crate) const fn allows_reads(self) -> bool {
        !matches!(self, Self::None)
    }

    pub(crate) const fn allows_writes(self) -> bool {
        matches!(self, Self::ReadWrite)
    }

    const fn marks(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Read => READABLE,
            Self::ReadWrite => READABLE | WRITABLE,
        }
    }
}

impl Pte {
    pub(crate) const EMPTY: Self = Self(0);

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & STATE {
            HOT | COLD => State::Present(FrameNr::new(self.frame())),
            MIGRATION => State::Migration(FrameNr::new(self.frame())),
            BUSY => State::Busy,
            _ => State::Empty,
        }
    }

    /// Returns the frame's number; meaningless in an empty entry.
    #[inline]
    pub(crate) const fn frame(self) -> u32 {
        (self.0 >> FRAME_SHIFT) as u32
    }

    /// Returns the byte offset of the frame in its pool; meaningless in an empty entry.
    #[inline(always)]
    pub(crate) const fn frame_start(self) -> usize {
        start_in_pool(self.0)
    }

    /// Returns `true` if the page is present and readable, and the entry is not claimed.
    #[inline]
    pub(crate) const fn is_hot(self) -> bool {
        self.0 & HOT != 0
    }

    #[inline]
    pub(crate) const fn may_write_in_place(self) -> bool {
        self.0 & (HOT | WRITABLE) == HOT | WRITABLE
    }

    pub(crate) const fn is_busy(self) -> bool {
        self.0 & STATE == BUSY
    }

    /// Returns a limit that is greater than each word that names a frame below `nr_frames`.
    pub(crate) const fn limit(nr_frames: usize) -> u64 {
        // The pool has less than 2^30 frames: numbers have 30 bits, and one is reserved for "none".
        (nr_frames as u64) << FRAME_SHIFT
    }

    /// Returns `true` if the frame number, which may be arbitrary, is less than that of `limit`.
    #[inline]
    pub(crate) const fn is_below(self, limit: u64) -> bool {
        self.0 < limit
    }

    pub(crate) const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    #[inline]
    pub(crate) const fn claimed(self) -> Self {
        Self(self.0 & !HOT | BUSY)
    }

    const fn present(marks: u64) -> u64 {
        if marks & READABLE != 0 { HOT } else { COLD }
    }

    /// Replaces the marks (readable, writable, dirty) of this entry, which names a frame.
    const fn with_marks(self, marks: u64) -> Self {
        let state = match self.0 & STATE {
            MIGRATION => MIGRATION,
            _ => Self::present(marks),
        };
        self.with(state, marks)
    }

    const fn with(self, state: u64, marks: u64) -> Self {
        let kept = self.0 & !(VERSION_MASK | MARKS | STATE);
        Self(kept | next_version(self.0) | marks | state)
    }

    const fn marks(self) -> u64 {
        self.0 & MARKS
    }

    #[inline]
    pub(crate) const fn rewritten(self) -> Self {
        self.with_marks(self.marks() | DIRTY)
    }

    /// Returns the entry after a write that has created the page, or a copy of it, in `frame`.
    pub(crate) const fn owned(self, frame: FrameNr) -> Self {
        let marks = READABLE | WRITABLE | DIRTY;
        Self((frame.get() as u64) << FRAME_SHIFT | next_version(self.0) | HOT | marks)
    }

    /// Returns the entry after a page of zeros was created, with the permissions of the area.
    pub(crate) const fn made(self, frame: FrameNr, protection: Protection) -> Self {
        let marks = protection.marks();
        let state = Self::present(marks);
        Self((frame.get() as u64) << FRAME_SHIFT | next_version(self.0) | state | marks)
    }

    /// Returns the entry after an unshared page was written in place: writable.
    pub(crate) const fn reused(self) -> Self {
        self.with_marks(READABLE | WRITABLE | DIRTY)
    }

    /// Returns the entry, present or migration, after the page was shared or pinned: not writable.
    pub(crate) const fn shared(self) -> Self {
        self.with_marks(self.marks() & !WRITABLE)
    }

    /// Returns the entry after a change of the protection: not writable until a permitted write.
    pub(crate) const fn protected(self, protection: Protection) -> Self {
        let kept = self.marks() & !(READABLE | WRITABLE);
        self.with_marks(kept | protection.marks() & READABLE)
    }

    pub(crate) const fn to_migration(self) -> Self {
        self.with(MIGRATION, self.marks())
    }

    /// Returns the entry after the second walk, or a move under the claim, with the same marks.
    pub(crate) const fn restored(self, frame: FrameNr) -> Self {
        let marks = self.marks();
        let settled = self.with(Self::present(marks), marks).0;
        Self(settled & !(!0 << FRAME_SHIFT) | (frame.get() as u64) << FRAME_SHIFT)
    }

    /// Returns this entry after `entry`, which was not claimed, was moved here.
    pub(crate) const fn moved_here(self, entry: Self) -> Self {
        Self(entry.0 & !VERSION_MASK | next_version(self.0))
    }

    pub(crate) const fn emptied(self) -> Self {
        Self(next_version(self.0))
    }
}

impl fmt::Debug for Pte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Pte");
        out.field("state", &self.state());
        out.field("version", &((self.0 & VERSION_MASK) >> VERSION_SHIFT));
        for (mark, name) in [
            (READABLE, "readable"),
            (WRITABLE, "writable"),
            (DIRTY, "dirty"),
        ] {
            if self.0 & mark != 0 {
                out.field(name, &true);
            }
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: u64 = VERSION_MASK >> VERSION_SHIFT;

    fn version(pte: Pte) -> u64 {
        (pte.0 & VERSION_MASK) >> VERSION_SHIFT
    }

    /// Entries of every state but claimed, with all marks and versions near the limits.
    fn entries() -> impl Iterator<Item = Pte> {
        [0, 1, LAST - 1, LAST].into_iter().flat_map(|version| {
            let marks = (0..8_u64).map(|marks| marks << READABLE.trailing_zeros());
            let used = marks.flat_map(move |marks| {
                let frames = [0, 1, (1 << FRAME_NR_BITS) - 2];
                frames.into_iter().flat_map(move |frame: u64| {
                    [Pte::present(marks), MIGRATION].map(|state| {
                        Pte(frame << FRAME_SHIFT | version << VERSION_SHIFT | marks | state)
                    })
                })
            });
            std::iter::once(Pte(version << VERSION_SHIFT)).chain(used)
        })
    }

    #[test]
    fn zeros_are_an_empty_entry() {
        assert_eq!(Pte::from_bits(0), Pte::EMPTY);
        assert_eq!(Pte::EMPTY.state(), State::Empty);
        assert!(!Pte::EMPTY.is_hot() && !Pte::EMPTY.may_write_in_place());
    }

    #[test]
    fn every_change_moves_the_version_by_one() {
        let frame = FrameNr::new(7);
        for pte in entries() {
            let mut changed = vec![pte.emptied(), pte.owned(frame)];
            let other = Pte::EMPTY.owned(frame);
            changed.extend([other, other.to_migration()].map(|entry| pte.moved_here(entry)));
            changed.push(pte.made(frame, Protection::Read));
            if pte.state() != State::Empty {
                changed.extend([pte.rewritten(), pte.reused()]);
                changed.extend([pte.shared(), pte.protected(Protection::Read)]);
                changed.extend([pte.to_migration(), pte.restored(frame)]);
            }
            for after in changed {
                assert_eq!(
                    version(after),
                    (version(pte) + 1) & LAST,
                    "{pte:?} {after:?}"
                );
                assert!(!after.is_busy());
            }
        }
    }

    #[test]
    fn a_claim_stops_readers_and_writers_and_keeps_the_rest() {
        for pte in entries() {
            let claimed = pte.claimed();
            assert_eq!(claimed.state(), State::Busy);
            assert!(!claimed.is_hot() && !claimed.may_write_in_place());
            assert_eq!(claimed.0 & !STATE, pte.0 & !STATE);
        }
    }

    #[test]
    fn migration_entries_keep_the_marks_and_let_nobody_in() {
        for pte in entries() {
            let State::Present(frame) = pte.state() else {
                continue;
            };
            let moving = pte.to_migration();
            assert_eq!(moving.state(), State::Migration(frame));
            assert_eq!(moving.marks(), pte.marks());
            assert!(!moving.is_hot() && !moving.may_write_in_place());
            let moved = moving.restored(FrameNr::new(99));
            assert_eq!(moved.state(), State::Present(FrameNr::new(99)));
            assert_eq!(moved.marks(), pte.marks());
            let back = moving.restored(frame);
            assert_eq!(back.0 & !VERSION_MASK, pte.0 & !VERSION_MASK);
            assert_eq!(moving.shared().marks(), pte.marks() & !WRITABLE);
            assert_eq!(moving.shared().state(), State::Migration(frame));
        }
    }

    #[test]
    fn marks_say_what_may_be_done() {
        for pte in entries() {
            let State::Present(frame) = pte.state() else {
                assert!(!pte.is_hot() && !pte.may_write_in_place());
                continue;
            };
            let is_hot = pte.0 & READABLE != 0;
            assert_eq!(pte.is_hot(), is_hot);
            assert_eq!(pte.may_write_in_place(), is_hot && pte.is_writable());
            assert!(!pte.shared().may_write_in_place());
            assert!(pte.reused().may_write_in_place() && pte.reused().is_hot());
            assert_eq!(pte.shared().state(), State::Present(frame));
            assert!(!pte.protected(Protection::None).is_hot());
            assert!(!pte.protected(Protection::ReadWrite).may_write_in_place());
            let written = pte.rewritten();
            assert_eq!(written.marks(), pte.marks() | DIRTY);
            assert_eq!(written.state(), pte.state());
        }
    }

    #[test]
    fn a_word_is_below_the_limit_if_its_frame_is() {
        for pte in entries() {
            for nr_frames in [1, 2, 7, (1 << FRAME_NR_BITS) - 2, (1 << FRAME_NR_BITS) - 1] {
                let is_below = (pte.frame() as usize) < nr_frames;
                assert_eq!(pte.is_below(Pte::limit(nr_frames)), is_below);
            }
        }
    }

    #[test]
    fn a_frame_starts_at_its_number_times_its_size() {
        for pte in entries() {
            assert_eq!(pte.frame_start(), pte.frame() as usize * FRAME_BYTES);
            assert_eq!(pte.0 >> 63, 0);
        }
    }

    #[test]
    fn pages_are_made_with_what_the_area_allows() {
        let frame = FrameNr::new(3);
        for pte in entries() {
            assert!(pte.owned(frame).may_write_in_place() && pte.owned(frame).is_hot());
            let read_only = pte.made(frame, Protection::Read);
            assert!(read_only.is_hot() && !read_only.may_write_in_place());
            assert!(pte.made(frame, Protection::ReadWrite).may_write_in_place());
            assert!(!pte.made(frame, Protection::None).is_hot());
            assert_eq!(read_only.state(), State::Present(frame));
        }
    }
}
