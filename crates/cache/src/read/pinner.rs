//! Pinning: by an announcement that the thread makes in a line of its own, or by a counted reference.
//!
//! # Protocol
//!
//! ```text
//! pin by an announcement                        a write, an eviction, a cut, a move of the page
//! 1 load the slot: hot (acquire)                a claim the slot (`busy`)
//! 2 the frame's mark is on? announce the frame  b freeze the frame at a count of one: fails while there is a mark
//! 3 light fence; the mark is still on (acquire) c so: copy to another frame; or let the page stay
//! 4 load the file's size                        d end the claim: new version, or as before
//! 5 load the slot again: unchanged?             e retire the frame: no more announcements; a look frees it when there are none
//! ```
//!
//! The room `announce` of the frame crate shows that the frame keeps its bytes while the pin exists: the mark has a counted reference, which is
//! not given up before a look has found no announcement. Steps 1 and 5 show that the frame is the page's: a slot's word does not repeat
//! while it has a page, so the page was in this frame all along, and the mark that step 3 has found was on at a moment when it was. The size
//! of step 4 is one that the file had then.
//!
//! Marks are set by pins that are counted, when a thread has pinned the page again and again: under the claim of the page's slot, so a claim's
//! holder knows whether there is one, but that looks may take it off ([`pagewell_frame::FrameMeta::is_marked`]).
//!
//! Everything else is a counted pin: a page that is missing, or not hot, or in motion; one without a mark; a thread without a slot left.
//!
//! Proved by `loom_announced_pin_vs_write`, `loom_announced_pin_vs_evict`, `loom_announced_pin_vs_cut`, `loom_announced_pin_vs_move`; the litmus
//! tests `announce-*`; the mutants `announce-*`, `emptied-without-retiring`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FrameRef, Hold, OwnedHold};

use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::mapping::shared::Shared;
use crate::read::raw;

/// Pins of pages of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinner<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<'m, S: RefScheme> Pinner<'m, S> {
    /// An announced reference to the frame of `page`, and how many bytes of it the file has; none where the pin has to be counted. The numbers are
    /// those of the module's text.
    #[inline(always)]
    pub(crate) fn announced(self, page: PageNr) -> Option<(Hold<'m, S>, usize)> {
        self.announced_by(page, |frame, is_still| {
            self.0.pool().try_announce(frame, is_still)
        })
    }

    /// As [`announced`](Self::announced), a reference that borrows nothing.
    #[inline(always)]
    pub(crate) fn announced_owned(self, page: PageNr) -> Option<(OwnedHold<Shared<S>>, usize)> {
        self.announced_by(page, |frame, is_still| {
            raw::try_announce_owned(self.0, frame, is_still)
        })
    }

    /// The steps, of which the caller knows how to do 2 and 3: for a frame, and what steps 4 and 5 say.
    #[inline(always)]
    fn announced_by<H>(
        self,
        page: PageNr,
        announce: impl FnOnce(FrameNr, &mut dyn FnMut() -> bool) -> Option<H>,
    ) -> Option<(H, usize)> {
        // A child of `fork` is told so by the counted pin.
        if !self.0.shared().home.is_here() {
            return None;
        }
        // 1.
        let seen = self.0.index().look(page)?;
        if !seen.slot.is_hot() {
            return None;
        }
        let mut rest = 0;
        // 2 and 3.
        let frame = FrameNr::new(seen.slot.frame());
        let hold = announce(frame, &mut || {
            // 4. (An index has no slots beyond `MAX_FILE_BYTES`, so the page begins where this says.)
            rest = self.0.size().saturating_sub(page << self.0.page_shift());
            // 5. Acquire, as step 4, so they stay in this order.
            rest != 0 && seen.is_unchanged()
        })?;
        Some((hold, rest.min(self.0.page_size() as u64) as usize))
    }

    /// Notes that this thread has pinned `page` by a counted reference. If it does so again and again, marks the page's frame, so that pins of it are
    /// announced from now on.
    pub(crate) fn note_counted(self, page: PageNr, reference: &FrameRef<'_, S>) {
        if self.0.pool().note_counted(reference) {
            self.mark(page, reference);
        }
    }

    /// Marks the frame of `reference`, if it is still the one of `page` and nobody has claimed that.
    #[cold]
    pub(crate) fn mark(self, page: PageNr, reference: &FrameRef<'_, S>) {
        let Some(seen) = self.0.index().look(page) else {
            return;
        };
        if seen.slot.state() == State::Present(reference.frame())
            && let Some(claim) = seen.claim_present(self.0.claims())
        {
            self.0.pool().mark(reference);
            // The slot is as it was.
            drop(claim);
        }
    }
}
