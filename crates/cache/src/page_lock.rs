//! Page locks: a page that is pinned to be changed keeps other writers waiting until it is replaced.
//!
//! The lock is in the page's state, which is in its frame's record and changes under the claim of its slot. Who waits for
//! it sleeps by that word ([`Mapping::wait_while_locked`]); a page that is locked is neither moved nor evicted.
//!
//! Proved by the models of `models/locked_pages.rs`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};
use pagewell_sync::atomic::Ordering;

use crate::edit::{Edit, copy_around};
use crate::error::{Error, ErrorKind, Op};
use crate::index::PageNr;
use crate::lookup::Found;
use crate::mapping::Mapping;
use crate::page_state::PageState;
use crate::slot::State;

impl<S: RefScheme> Mapping<S> {
    /// Locks a page of the file for [`replace_locked`](Self::replace_locked): a copy of its bytes, and a frame. The
    /// caller keeps barriers from being made until the page is unlocked.
    pub(crate) fn lock_page(
        &self,
        page: PageNr,
        holder: u64,
    ) -> Result<(Box<[u8]>, UniqueFrame<'_, S>), Error> {
        let writes = self.writes(Op::Pin)?;
        self.throttle();
        let spare = self.frame_for_write()?;
        loop {
            let Found { reference, end } = self.get(page, || 1)?;
            drop(reference);
            let Some(claim) = self.claim_present(page) else {
                continue;
            };
            let Some(frame) = claim.frame() else {
                continue;
            };
            let record = self.shared().pool.meta(frame);
            let state = PageState::of(record);
            if state.is_locked() {
                drop(claim);
                self.wait_while_locked(page, frame);
                continue;
            }
            if state.is_unclean_of_other(writes.groups.current()) {
                drop(claim);
                self.settle_groups(writes)?;
                continue;
            }
            let len = self.len_of(page, self.size().max(end));
            if len == 0 {
                return Err(self.error(ErrorKind::OutOfRange, Op::Pin));
            }
            // The slot's reference keeps the frame while the claim lasts, and nobody else writes to it.
            let mut bytes = vec![0; len].into_boxed_slice();
            self.shared()
                .pool
                .bytes(frame, self.page_size())
                .copy_to(0, &mut bytes);
            state.locked_by(holder).store(record);
            drop(claim);
            return Ok((bytes, spare));
        }
    }

    /// Puts the bytes of `edit` in place of a locked page's, and unlocks it. If the page is not there any more, because the
    /// file was cut or the page discarded, there is nothing to replace.
    pub(crate) fn replace_locked<'m>(
        &'m self,
        page: PageNr,
        holder: u64,
        edit: Edit<&[u8]>,
        spare: Option<UniqueFrame<'m, S>>,
    ) {
        let (Some(writes), Some(claim)) = (self.writes_if_any(), self.claim_present(page)) else {
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.shared().pool.meta(frame);
        let before = PageState::of(record);
        if !before.is_locked_by(holder) {
            // The page was discarded, and is another one now.
            return;
        }
        let after = before.unlocked().dirtied(writes.groups.current());
        let lsn = edit.lsn_after(record);
        if let Some(unique) = claim.freeze() {
            edit.apply(&unique);
            self.note_state(writes, page, before, after);
            claim.rewrite(unique, after, lsn);
            self.shared().waits.wake(PageState::word(record));
        } else if let Some(unique) = spare {
            let old = self.shared().pool.bytes(frame, self.page_size());
            copy_around(old, unique.bytes(), edit.hole());
            edit.apply(&unique);
            self.note_state(writes, page, before, after);
            drop(claim.replace(unique, after, lsn));
        }
    }

    /// Sleeps while `page` is in `frame`, and locked.
    pub(crate) fn wait_while_locked(&self, page: PageNr, frame: FrameNr) {
        let record = self.shared().pool.meta(frame);
        let in_frame = || {
            let slot = self.index().look(page)?.slot;
            (slot.state() == State::Present(frame)).then(|| slot.bits())
        };
        let word = PageState::word(record);
        self.shared().waits.wait_while(word, |state| {
            let before = in_frame();
            // ORDERING: Acquire; whoever unlocks stores, and wakes. And so that the slot is looked at again after it: if
            // that is as it was, the frame was the page's all the time, and its word meant this. Otherwise it may have been
            // something else, or another page, of which nobody wakes us, or whose holder waits for us.
            let is_locked = PageState::from_bits(state.load(Ordering::Acquire)).is_locked();
            is_locked && before.is_some() && in_frame() == before
        });
    }
}
