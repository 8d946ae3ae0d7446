//! Hazard protection of a frame. E1, E4 and I2 are those of [`announce`](crate::announce), the only
//! module that changes the protection.

use pagewell_sync::atomic::Ordering;

use super::meta::FrameMeta;
use crate::count::RefScheme;

/// Not protected: references are counted.
pub(crate) const NONE: u32 = 0;
/// Protected: references may be published.
pub(crate) const ON: u32 = 1;
/// Closed: new references are counted; hazards published before remain valid.
pub(crate) const CLOSED: u32 = 2;

impl<S: RefScheme> FrameMeta<S> {
    /// Whether references may be published. Reliable only after the caller's publication (E1).
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // ORDERING: Acquire, E4. Also orders the later check that the frame is still the page's.
        self.mark.load(Ordering::Acquire) == ON
    }

    /// Whether the count includes the reference for all hazards, even if there is none now. A hint,
    /// except that the holder of the claim of the frame's page sees every protection.
    #[inline]
    pub fn is_marked(&self) -> bool {
        // ORDERING: Relaxed; it is set under the claim, which ends with a release and begins with
        // an acquire. A stale result is checked again under the lock.
        self.mark.load(Ordering::Relaxed) != NONE
    }

    /// Changes the protection, under the hazard lock.
    pub(crate) fn set_mark(&self, mark: u32) {
        // ORDERING: Release; E4 for `ON`. `CLOSED` is ordered by the heavy fence (E1).
        self.mark.store(mark, Ordering::Release);
    }

    /// Loads the protection, under the hazard lock.
    pub(crate) fn mark(&self) -> u32 {
        // ORDERING: Relaxed; I2.
        self.mark.load(Ordering::Relaxed)
    }
}
