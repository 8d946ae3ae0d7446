//! State of a page's bytes relative to the backend. A plain value.
//!
//! ```text
//! 63      3      2         1        0
//! [ holder ][ locked ][ written ][ dirty ]
//! ```
//!
//! | state | the backend | may be evicted |
//! |---|---|---|
//! | clean | has the bytes; they are durable as far as is known | yes |
//! | dirty | does not have the bytes | no |
//! | unsynced (`written`) | has or is being given the bytes, not known to be durable | no |
//! | dirty and unsynced | has or is being given older bytes | no |
//!
//! The state is in the metadata of the page's frame, and a page that moves keeps it. Only the
//! holder of the slot's claim changes it. `locked` is set while a
//! [`PageGuardMut`](crate::PageGuardMut) that will replace the page exists; `holder` is the number
//! of its lock. The removal of the page clears both, and after a new fill another guard may lock
//! the page.

use pagewell_frame::FrameMeta;
use pagewell_sync::atomic::{AtomicU64, Ordering};

const DIRTY: u64 = 1 << 0;
const WRITTEN: u64 = 1 << 1;
const LOCKED: u64 = 1 << 2;
const HOLDER_SHIFT: u32 = 3;
const OF_BYTES: u64 = DIRTY | WRITTEN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageState(u64);

impl PageState {
    pub(crate) const CLEAN: Self = Self(0);

    #[inline(always)]
    #[allow(unsafe_code)] // The requirement of `FrameMeta::state`.
    pub(crate) fn word(record: &FrameMeta) -> &AtomicU64 {
        // SAFETY: (W) only `store` stores to the word. Each caller of `store` has claimed the slot
        // that names the frame, so the frame holds that slot's page until the store is done.
        unsafe { record.state() }
    }

    /// Loads the state of the page in a frame: a hint, unless the caller has claimed its slot.
    pub(crate) fn of(record: &FrameMeta) -> Self {
        // ORDERING: Relaxed; claims of one slot are ordered by the slot's word.
        Self(Self::word(record).load(Ordering::Relaxed))
    }

    /// Stores the state. The caller has claimed the slot.
    pub(crate) fn store(self, record: &FrameMeta) {
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

    pub(crate) const fn may_go(self) -> bool {
        self.0 & (DIRTY | WRITTEN | LOCKED) == 0
    }

    pub(crate) const fn is_unclean(self) -> bool {
        self.0 & (DIRTY | WRITTEN) != 0
    }

    pub(crate) const fn dirtied(self) -> Self {
        Self(self.0 | DIRTY)
    }

    pub(crate) const fn written(self) -> Self {
        Self(self.0 & !DIRTY | WRITTEN)
    }

    /// Returns the state after a sync that covers all earlier writes of the page to the backend.
    pub(crate) const fn synced(self) -> Self {
        Self(self.0 & !WRITTEN)
    }

    /// Returns the state after a failed write or sync, which may not have stored the submitted
    /// page. A page that is not unsynced has replaced the submitted one, and keeps its state.
    pub(crate) const fn failed(self) -> Self {
        if self.is_written() {
            Self(self.0 & !WRITTEN | DIRTY)
        } else {
            self
        }
    }

    /// Sets the lock. Only the low 61 bits of `holder` are stored.
    pub(crate) const fn locked_by(self, holder: u64) -> Self {
        Self(self.0 & OF_BYTES | LOCKED | holder << HOLDER_SHIFT)
    }

    pub(crate) const fn is_locked_by(self, holder: u64) -> bool {
        self.is_locked() && self.holder() == holder << HOLDER_SHIFT >> HOLDER_SHIFT
    }

    /// Returns the number of the lock. It has a meaning only if the page is locked.
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
            // Written during a writeback: the sync did not cover the last write.
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
