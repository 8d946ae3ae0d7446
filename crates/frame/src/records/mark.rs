//! Hazard protection of a frame. The labels E1, E4 and I2 refer to [`announce`](crate::announce),
//! the only module that changes the protection.

use pagewell_sync::atomic::Ordering;

use super::meta::FrameMeta;
use crate::count::RefScheme;

/// Not protected: references are counted.
pub(crate) const NONE: u32 = 0;
/// Protected: references may be published.
pub(crate) const ON: u32 = 1;
/// Closed: new references are counted, and hazards that were published before remain valid.
pub(crate) const CLOSED: u32 = 2;

impl<S: RefScheme> FrameMeta<S> {
    /// Returns `true` if references may be published. Reliable only after the caller's own
    /// publication (E1).
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // ORDERING: Acquire, E4. Also orders this load before the caller's check that the frame
        // still belongs to the page.
        self.mark.load(Ordering::Acquire) == ON
    }

    /// Returns `true` if the count includes the protection reference, even if no hazard exists now.
    /// A hint, except that the holder of the page's claim never misses a protection.
    #[inline]
    pub fn is_marked(&self) -> bool {
        // ORDERING: Relaxed; a protection is set under the page's claim, which begins with an
        // acquire and ends with a release. Callers check a stale result again under the lock.
        self.mark.load(Ordering::Relaxed) != NONE
    }

    /// Changes the protection, under the hazard lock.
    pub(crate) fn set_mark(&self, mark: u32) {
        // ORDERING: Release; E4 for `ON`. The heavy fence orders `CLOSED` (E1).
        self.mark.store(mark, Ordering::Release);
    }

    /// Loads the protection, under the hazard lock.
    pub(crate) fn mark(&self) -> u32 {
        // ORDERING: Relaxed; the lock orders all changes (I2).
        self.mark.load(Ordering::Relaxed)
    }
}
