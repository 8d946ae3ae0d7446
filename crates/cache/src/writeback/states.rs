//! Changes of the states of pages in flight to the backend.

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;

#[derive(Clone, Copy, Debug)]
pub(super) struct States<'m>(pub(super) &'m Mapping);

impl States<'_> {
    pub(super) fn settle_written(self, writes: &Writes, after: fn(PageState) -> PageState) {
        // No page past the end is in flight, and truncated pages are no longer unsynced.
        let (mut from, end) = (0, self.0.nr_pages());
        while let Some(page) = writes.written().next(from, end) {
            from = page + 1;
            self.change_state(writes, page, after);
        }
    }

    pub(super) fn change_state(
        self,
        writes: &Writes,
        page: PageNr,
        after: impl Fn(PageState) -> PageState,
    ) {
        let Some(claim) = self.0.claim_present(page) else {
            // Truncated: none of its bytes must be written or kept.
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.0.pool().meta(frame);
        let before = PageState::of(record);
        let after = after(before);
        self.0.note_state(writes, page, before, after);
        after.store(record);
        // The bytes are unchanged, so the drop restores the slot.
        drop(claim);
    }
}
