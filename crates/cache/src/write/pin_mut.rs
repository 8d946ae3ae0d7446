//! Page pinned for writing: a guard with a copy of the page's bytes.
//!
//! [`PageGuardMut`] is owned by the thread that created it, and cannot be sent; a call of this
//! thread that would wait for the guard fails ([`super::lock_wait`]). [`DetachedPageGuardMut`] has
//! no owner and can be sent. [`PublishedPage`] is a `PageGuardMut` whose bytes are published.
//!
//! # Page locks
//!
//! While a page is pinned for writing, other writers of the page wait. The lock is a bit of the
//! page's state in the metadata of its frame, and changes only under the claim of the slot. Threads
//! that wait for it sleep on that word ([`super::lock_wait`]). A locked page is not evicted, and
//! only its guard moves it.
//!
//! Verified by the models of `models/locked_pages.rs`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use pagewell_frame::UniqueFrame;
use pagewell_sync::MutexGuard;

use crate::base::edit::{Edit, copy_around};
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::hook::Undecided;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::write::lock_wait::{SeenLock, wait_while_locked};
use crate::write::page::PageWriter;

/// Guard of a page that is about to be replaced. Dereferences to a copy of its bytes, which the
/// drop of the guard stores in the page, unless the page was removed.
///
/// Until then all readers see the old page, and other writers of the page wait. A call of the
/// thread that has the guard fails with [`Deadlock`](crate::ErrorKind::Deadlock) if it would wait
/// for the guard. The guard cannot be sent to another thread unless it is [detached](Self::detach).
pub struct PageGuardMut<'f> {
    locked: LockedPage<'f>,
    /// Makes the guard `Sync` but not `Send`.
    stays: PhantomData<MutexGuard<'f, ()>>,
}

/// Like a [`PageGuardMut`], but has no owner and may be sent to any thread. A thread that has this
/// guard and writes to the page by other means waits forever: the deadlock is not detected.
pub struct DetachedPageGuardMut<'f> {
    locked: LockedPage<'f>,
}

/// Guard of a page whose new bytes are published. Other writers of the page wait until it is
/// dropped: see [`PageGuardMut::publish`].
pub struct PublishedPage<'f> {
    locked: LockedPage<'f>,
    stays: PhantomData<MutexGuard<'f, ()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtEnd {
    Replaced,
    Unlocked,
}

/// Locked page with a copy of its bytes. The drop acts according to `at_end`, except in a fork.
struct LockedPage<'f> {
    mapping: &'f Mapping,
    page: PageNr,
    holder: u64,
    /// Not in a frame: optimistic readers may still be copying from any frame that was reused.
    bytes: Box<[u8]>,
    lsn: u64,
    at_end: AtEnd,
    /// Frame in case of other references, allocated in advance so that the drop cannot fail.
    spare: Option<UniqueFrame<'f>>,
    /// Dropped after the page was replaced.
    undecided: Option<Undecided<'f>>,
}

impl<'f> PageGuardMut<'f> {
    #[inline]
    pub(crate) fn new(
        mapping: &'f Mapping,
        page: PageNr,
        if_locked: IfLocked,
    ) -> Result<Self, Error> {
        let writes = mapping.writes(Op::Pin)?;
        if !mapping.seems_unclean(page) {
            mapping
                .throttle(writes)
                .map_err(|error| error.with_op(Op::Pin))?;
        }
        let holder = mapping.shared.next_holder();
        let undecided = writes.groups.keep_open(holder);
        let (bytes, spare) = mapping
            .with_room(|| PageLocks(mapping).lock_page(page, holder, if_locked))
            .map_err(|error| error.with_op(Op::Pin))?;
        let locked = LockedPage {
            mapping,
            page,
            holder,
            bytes,
            lsn: 0,
            at_end: AtEnd::Replaced,
            spare: Some(spare),
            undecided: Some(undecided),
        };
        let stays = PhantomData;
        Ok(Self { locked, stays })
    }

    /// Sets the log sequence number of the change. The writeback callback gets the page's highest
    /// number ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    pub fn set_lsn(&mut self, lsn: u64) {
        self.locked.lsn = lsn;
    }

    /// Replaces the page's bytes for all readers. Other writers wait for the drop of the result.
    ///
    /// A program that changes several pages thus orders the changes for readers, and admits other
    /// writers after all of them are visible (for a tree, see `docs/guide/views-and-tokens.md`).
    /// For one page, dropping the guard does both.
    pub fn publish(mut self) -> PublishedPage<'f> {
        self.locked.publish();
        PublishedPage {
            locked: self.locked,
            stays: PhantomData,
        }
    }

    /// Releases the guard without a change of the page. Its [tokens](crate::Token) stay valid.
    pub fn cancel(mut self) {
        self.locked.at_end = AtEnd::Unlocked;
    }

    /// Converts the guard into one that has no owner and can be sent.
    #[must_use = "the page is replaced when this is dropped"]
    pub fn detach(self) -> DetachedPageGuardMut<'f> {
        self.locked.owner(Undecided::detach);
        DetachedPageGuardMut {
            locked: self.locked,
        }
    }
}

impl<'f> DetachedPageGuardMut<'f> {
    /// As [`PageGuardMut::set_lsn`].
    pub fn set_lsn(&mut self, lsn: u64) {
        self.locked.lsn = lsn;
    }

    /// As [`PageGuardMut::cancel`].
    pub fn cancel(mut self) {
        self.locked.at_end = AtEnd::Unlocked;
    }

    /// Converts the guard into one that the calling thread owns.
    #[must_use = "the page is replaced when this is dropped"]
    pub fn attach(self) -> PageGuardMut<'f> {
        self.locked.owner(Undecided::attach);
        PageGuardMut {
            locked: self.locked,
            stays: PhantomData,
        }
    }
}

impl Deref for PageGuardMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl DerefMut for PageGuardMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.locked.bytes
    }
}

impl Deref for DetachedPageGuardMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl DerefMut for DetachedPageGuardMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.locked.bytes
    }
}

impl<'f> LockedPage<'f> {
    fn owner(&self, set: fn(&Undecided<'f>)) {
        if let Some(undecided) = &self.undecided
            && self.mapping.shared.home.is_here()
        {
            set(undecided);
        }
    }
}

impl LockedPage<'_> {
    fn replace(&mut self, then: ThenLock) {
        let edit = Edit::whole(&self.bytes, self.lsn);
        let lock = (self.holder, then);
        PageLocks(self.mapping).replace_locked(self.page, lock, edit, self.spare.take());
    }

    fn publish(&mut self) {
        if self.mapping.shared.home.is_here() {
            self.replace(ThenLock::Stays);
        }
        self.at_end = AtEnd::Unlocked;
    }
}

impl Drop for LockedPage<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.mapping.shared.home.is_here() {
            // The drop would need locks that other threads of the parent may have held at the fork.
            std::mem::forget(self.undecided.take());
            std::mem::forget(self.spare.take());
            return;
        }
        match self.at_end {
            AtEnd::Replaced => self.replace(ThenLock::Ends),
            AtEnd::Unlocked => PageLocks(self.mapping).unlock(self.page, self.holder),
        }
    }
}

impl fmt::Debug for PageGuardMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuardMut({} bytes)", self.locked.bytes.len())
    }
}

impl Deref for PublishedPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl fmt::Debug for PublishedPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublishedPage({} bytes)", self.locked.bytes.len())
    }
}

impl fmt::Debug for DetachedPageGuardMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachedPageGuardMut({} bytes)", self.locked.bytes.len())
    }
}

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
    /// ([`Groups`](crate::dirty::hook::Groups)). If the page is locked already, fails with
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
            let Some((claim, frame, record, state)) = self.0.claim_page(page) else {
                continue;
            };
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
        let Some((claim, _, record, state)) = self.0.claim_page(page) else {
            return;
        };
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
        let Some(writes) = self.0.writes_if_any() else {
            return;
        };
        let Some((claim, frame, record, before)) = self.0.claim_page(page) else {
            return;
        };
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
