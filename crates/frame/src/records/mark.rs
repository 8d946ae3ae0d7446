//! Hazard protection of a frame. [`announce`](crate::announce) changes it; E1, E4 and I2 are there.

use pagewell_sync::atomic::Ordering;

use super::meta::FrameMeta;

/// Not protected: references are counted.
pub(crate) const NONE: u32 = 0;
/// Protected: references may be published.
pub(crate) const ON: u32 = 1;
/// Closed: new references are counted, and hazards that were published before remain valid.
pub(crate) const CLOSED: u32 = 2;

impl FrameMeta {
    /// Returns `true` if the protection is on: reliable only after the caller's publication (E1).
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // ORDERING: Acquire, E4. Orders this load before the caller's check of the index slot, too.
        self.mark.load(Ordering::Acquire) == ON
    }

    /// Returns `true` if the count includes the protection reference, even if no hazard exists now.
    /// A hint, except that the holder of the page's claim never misses a protection.
    #[inline]
    pub fn is_marked(&self) -> bool {
        // ORDERING: Relaxed; the page's claim, under which protections are set, begins with an
        // acquire and ends with a release. `retire` and the scan repeat the check under the lock.
        self.mark.load(Ordering::Relaxed) != NONE
    }

    /// Changes the protection, under the hazard lock.
    pub(crate) fn set_mark(&self, mark: u32) {
        // ORDERING: Release; E4 for `ON`. The heavy fence orders `CLOSED` (E1).
        self.mark.store(mark, Ordering::Release);
    }

    pub(crate) fn mark(&self) -> u32 {
        // ORDERING: Relaxed; the lock orders all changes (I2).
        self.mark.load(Ordering::Relaxed)
    }
}
