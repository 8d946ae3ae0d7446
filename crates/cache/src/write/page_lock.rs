//! Page locks. While a page is pinned for writing, other writers of the page wait.
//!
//! The lock is a bit of the page's state in the metadata of its frame, and changes only under the
//! claim of the slot. Threads that wait for it sleep on that word ([`super::lock_wait`]). A locked
//! page is not evicted, and only its guard moves it.
//!
//! Verified by the models of `models/locked_pages.rs`.

use pagewell_frame::UniqueFrame;

use crate::base::edit::{Edit, copy_around};
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::write::lock_wait::{SeenLock, wait_while_locked};
use crate::write::page::PageWriter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfLocked {
    Wait,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThenLock {
    Ends,
    Stays,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLocks<'m>(pub(crate) &'m Mapping);

impl<'m> PageLocks<'m> {
    /// Locks a page of the file for [`replace_locked`](Self::replace_locked). Returns a copy of its
    /// bytes, and a spare frame. Until the page is unlocked, the owner of `holder` is recorded
    /// ([`Groups`](crate::dirty::groups::Groups)). If the page is locked already, fails with
    /// [`Locked`](ErrorKind::Locked) if the call must not wait, and otherwise with
    /// [`Deadlock`](ErrorKind::Deadlock) if this thread owns the guard.
    pub(crate) fn lock_page(
        self,
        page: PageNr,
        holder: u64,
        if_locked: IfLocked,
    ) -> Result<(Box<[u8]>, UniqueFrame<'m>), Error> {
        let writes = self.0.writes(Op::Pin)?;
        let spare = PageWriter(self.0).frame_for_write()?;
        loop {
            let Found { reference, end } = Lookup(self.0).get(page, || 1)?;
            drop(reference);
            let Some(claim) = self.0.claim_present(page) else {
                continue;
            };
            let Some(frame) = claim.frame() else {
                continue;
            };
            let record = self.0.pool().meta(frame);
            let state = PageState::of(record);
            if let Some(lock) = SeenLock::of(frame, state) {
                drop(claim);
                match if_locked {
                    IfLocked::Wait => wait_while_locked(self.0, writes, page, lock)?,
                    IfLocked::Fail => {
                        return Err(self.0.error(ErrorKind::Locked, Op::Pin).with_page(page));
                    }
                }
                continue;
            }
            let len = self.0.len_of(page, self.0.size().max(end));
            if len == 0 {
                return Err(self.0.error(ErrorKind::OutOfRange, Op::Pin));
            }
            // The slot's reference keeps the frame, and the claim excludes other writers.
            let mut bytes = vec![0; len].into_boxed_slice();
            self.0
                .pool()
                .bytes(frame, self.0.page_size())
                .copy_to(0, &mut bytes);
            state.locked_by(holder).store(record);
            drop(claim);
            return Ok((bytes, spare));
        }
    }

    /// Unlocks a page without changing it, so its tokens stay valid. Does nothing if the page was
    /// removed, which has ended the lock.
    pub(crate) fn unlock(self, page: PageNr, holder: u64) {
        let Some(claim) = self.0.claim_present(page) else {
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.0.pool().meta(frame);
        let state = PageState::of(record);
        if !state.is_locked_by(holder) {
            return;
        }
        state.unlocked().store(record);
        drop(claim);
        // If the frame holds another page by now, threads that wait for its lock check it again.
        self.0.claims().waits.wake(PageState::word(record));
    }

    pub(crate) fn replace_locked(
        self,
        page: PageNr,
        (holder, then): (u64, ThenLock),
        edit: Edit<&[u8]>,
        spare: Option<UniqueFrame<'m>>,
    ) {
        let (Some(writes), Some(claim)) = (self.0.writes_if_any(), self.0.claim_present(page))
        else {
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.0.pool().meta(frame);
        let before = PageState::of(record);
        if !before.is_locked_by(holder) {
            return;
        }
        let after = match then {
            ThenLock::Ends => before.unlocked(),
            ThenLock::Stays => before,
        };
        let after = after.dirtied();
        let lsn = edit.lsn_after(record);
        if let Some(unique) = claim.freeze() {
            edit.apply(&unique);
            self.0.note_state(writes, page, before, after);
            writes.oldest.note(edit.lsn);
            claim.rewrite(unique, after, lsn);
            self.0.claims().waits.wake(PageState::word(record));
        } else if let Some(unique) = spare {
            let old = self.0.pool().bytes(frame, self.0.page_size());
            copy_around(old, unique.bytes(), edit.hole());
            edit.apply(&unique);
            self.0.note_state(writes, page, before, after);
            writes.oldest.note(edit.lsn);
            drop(claim.replace(unique, after, lsn));
        }
    }
}
