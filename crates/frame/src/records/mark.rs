//! The mark of a frame: whether references to it may be announced. What E1, E4 and I2 are is in the text of the room `announce`, which alone
//! changes marks.

use pagewell_sync::atomic::Ordering;

use super::meta::FrameMeta;
use crate::count::RefScheme;

/// References to the frame are counted.
pub(crate) const NONE: u32 = 0;
/// They may be announced.
pub(crate) const ON: u32 = 1;
/// They are counted; those that were announced before are still good.
pub(crate) const CLOSED: u32 = 2;

impl<S: RefScheme> FrameMeta<S> {
    /// Whether references to the frame may be announced. Who relies on it has announced the frame before (E1).
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // ORDERING: Acquire, E4; and what is loaded after it, to see that the frame is still the page's, is not loaded before.
        self.mark.load(Ordering::Acquire) == ON
    }

    /// Whether the count has a reference for announced ones, and maybe for none of them now. A hint, but to the holder of the claim of the
    /// page that is in the frame: to it no mark that is there is missing.
    #[inline]
    pub fn is_marked(&self) -> bool {
        // ORDERING: Relaxed; marks are set under the claim, whose end is released and whose beginning acquires. A mark that is seen though it has
        // gone is looked at again with the lock.
        self.mark.load(Ordering::Relaxed) != NONE
    }

    /// Changes the mark, with the lock.
    pub(crate) fn set_mark(&self, mark: u32) {
        // ORDERING: Release; E4 for `ON`. `CLOSED` is ordered by the heavy fence (E1).
        self.mark.store(mark, Ordering::Release);
    }

    /// The mark, with the lock.
    pub(crate) fn mark(&self) -> u32 {
        // ORDERING: Relaxed; I2.
        self.mark.load(Ordering::Relaxed)
    }
}
