//! The state of a page's bytes: whether the storage has them. Pure.
//!
//! ```text
//! 63      3      2         1        0
//! [ holder ][ locked ][ written ][ dirty ]
//! ```
//!
//! | state | the storage | may be evicted |
//! |---|---|---|
//! | clean | has the bytes, as far as is known for good | yes |
//! | dirty | does not have them | no |
//! | written | was given them, or is being given them, and has not said that they are durable | no |
//! | dirty and written | was given older ones | no |
//!
//! The state is in the record of the page's frame, and only the holder of the slot's claim changes it. A page
//! that moves to another frame takes its state along.
//!
//! `locked` is no state of the bytes: a [`PageGuardMut`](crate::PageGuardMut) is about to replace the page. `holder` is the number
//! of that lock: a page that was cut off, and is there again, may have been locked by another guard.

use pagewell_frame::FrameMeta;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};

const DIRTY: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const LOCKED: u64 = 1 << 2;
const HOLDER_SHIFT: u32 = 3;
const OF_BYTES: u64 = DIRTY | WRITTEN;

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageState(u64);

impl PageState {
    pub(crate) const CLEAN: Self = Self(0);

    /// The word of a page's record that has its state: to load, and to wait for.
    #[inline(always)]
    #[allow(unsafe_code)] // The duty of `FrameMeta::state`.
    pub(crate) fn word<S: RefScheme>(record: &FrameMeta<S>) -> &AtomicU64 {
        // SAFETY: (W) only `store` stores to it. The callers of `store` have claimed the slot that names the frame, or named it
        // until a moment ago and have its reference: the frame is a page of theirs, and stays one meanwhile.
        unsafe { record.state() }
    }

    /// The state of the page in a frame. The caller has claimed its slot; for any other caller the state is a hint.
    pub(crate) fn of<S: RefScheme>(record: &FrameMeta<S>) -> Self {
        // ORDERING: Relaxed; claims of one slot are ordered by the slot's word.
        Self(Self::word(record).load(Ordering::Relaxed))
    }

    /// Stores the state; the caller has claimed the slot.
    pub(crate) fn store<S: RefScheme>(self, record: &FrameMeta<S>) {
        // ORDERING: Relaxed; as in `of`.
        Self::word(record).store(self.0, Ordering::Relaxed);
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(crate) const fn is_written(self) -> bool {
        self.0 & WRITTEN != 0
    }

    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether the page can go: the storage has its bytes, and no guard is about to replace it.
    pub(crate) const fn may_go(self) -> bool {
        self.0 & (DIRTY | WRITTEN | LOCKED) == 0
    }

    /// Whether the storage is not known to have the bytes.
    pub(crate) const fn is_unclean(self) -> bool {
        self.0 & (DIRTY | WRITTEN) != 0
    }

    /// After a write to the page.
    pub(crate) const fn dirtied(self) -> Self {
        Self(self.0 | DIRTY)
    }

    /// When the page is being given to the storage.
    pub(crate) const fn written(self) -> Self {
        Self(self.0 & !DIRTY | WRITTEN)
    }

    /// When the storage has said that everything it was given is durable.
    pub(crate) const fn synced(self) -> Self {
        Self(self.0 & !WRITTEN)
    }

    /// When the storage did not take the page, or cannot say what became of the pages that it was given. A page that it was
    /// not given, because it is another page than before, stays as it is.
    pub(crate) const fn failed(self) -> Self {
        if self.is_written() {
            Self(self.0 & !WRITTEN | DIRTY)
        } else {
            self
        }
    }

    /// When `holder`, whose low 61 bits count, is about to replace the page.
    pub(crate) const fn locked_by(self, holder: u64) -> Self {
        Self(self.0 & OF_BYTES | LOCKED | holder << HOLDER_SHIFT)
    }

    pub(crate) const fn is_locked_by(self, holder: u64) -> bool {
        self.is_locked() && self.holder() == holder << HOLDER_SHIFT >> HOLDER_SHIFT
    }

    /// The number of the lock, if the page is locked.
    pub(crate) const fn holder(self) -> u64 {
        self.0 >> HOLDER_SHIFT
    }

    pub(crate) const fn unlocked(self) -> Self {
        Self(self.0 & OF_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = PageState> {
        (0..=OF_BYTES).flat_map(|bits| {
            let state = PageState(bits);
            [
                state,
                state.locked_by(0),
                state.locked_by(7),
                state.locked_by(u64::MAX),
            ]
        })
    }

    #[test]
    fn only_clean_pages_that_nobody_replaces_may_go() {
        for state in all() {
            assert_eq!(state.may_go(), !state.is_unclean() && !state.is_locked());
        }
    }

    #[test]
    fn a_write_makes_dirty_whatever_happens_to_older_bytes() {
        for state in all() {
            let dirtied = state.dirtied();
            assert!(dirtied.is_dirty());
            // Written while older bytes are on their way: the sync did not cover the last write.
            assert!(dirtied.synced().is_dirty());
            assert!(!state.written().is_dirty() && state.written().is_unclean());
            assert!(!state.failed().is_written());
            assert_eq!(state.failed().is_dirty(), state.is_unclean());
            assert!(!state.written().synced().is_unclean());
        }
    }

    #[test]
    fn the_lock_is_no_state_of_the_bytes() {
        for state in all() {
            for after in [
                state.dirtied(),
                state.written(),
                state.synced(),
                state.failed(),
            ] {
                assert_eq!(after.is_locked(), state.is_locked());
            }
            let locked = state.locked_by(9);
            assert_eq!(locked.unlocked(), state.unlocked());
            assert_eq!(locked.is_unclean(), state.is_unclean());
            assert!(locked.is_locked_by(9) && !locked.is_locked_by(8));
            assert!(locked.dirtied().is_locked_by(9));
            assert!(state.locked_by(u64::MAX).is_locked_by(u64::MAX));
            assert!(!state.unlocked().is_locked());
        }
    }
}
