//! A page pinned to be changed: a guard with a copy of the page's bytes.
//!
//! There are two such guards. One is of the thread that has made it, and stays there; so a call of that thread that would wait for the
//! guard is found, and is an error ([`super::lock_wait`]). The other is of no thread, and may be sent. What is left of either after its bytes
//! were published is a third one, which keeps other writers away.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_sync::MutexGuard;

use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::dirty::groups::Undecided;
use crate::mapping::record::Mapping;
use crate::write::page_lock::{IfLocked, PageLocks, ThenLock};

/// A page that is about to be replaced: derefs to a copy of its bytes, which becomes the page when the guard is
/// dropped.
///
/// Until then all readers see the old page, and other threads that want to write to it wait. A call of the thread that has the
/// guard that would wait for it fails with [`Deadlock`](crate::ErrorKind::Deadlock). The guard stays on its thread; to send it to
/// another, [`detach`](Self::detach) it.
pub struct PageGuardMut<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
    /// As a guard of a mutex: shared, but not sent.
    stays: PhantomData<MutexGuard<'f, ()>>,
}

/// As a [`PageGuardMut`], but of no thread: it may be sent to any. A thread that has one and wants to write to the page by other
/// means waits for itself.
pub struct DetachedPageGuardMut<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
}

/// A page whose new bytes all readers see, and that other threads which want to write to it still wait for, until this is dropped: see
/// [`PageGuardMut::publish`].
pub struct PublishedPage<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
    /// As in [`PageGuardMut`].
    stays: PhantomData<MutexGuard<'f, ()>>,
}

/// What becomes of a locked page when its guard is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtEnd {
    /// It is replaced, and unlocked.
    Replaced,
    /// It is unlocked, and stays as it is.
    Unlocked,
}

/// A locked page, and a copy of its bytes, which replaces the page when this is dropped.
struct LockedPage<'f, S: RefScheme> {
    mapping: &'f Mapping<S>,
    page: PageNr,
    /// The number of the lock.
    holder: u64,
    /// Memory of the guard's own, and not the frame: stale optimistic readers may be copying from any frame, and
    /// a plain slice does not allow that.
    bytes: Box<[u8]>,
    /// The log sequence number of the change.
    lsn: u64,
    at_end: AtEnd,
    /// Set aside, so that dropping the guard cannot fail: used if others hold the page then.
    spare: Option<UniqueFrame<'f, S>>,
    /// Dropped after the page was replaced.
    undecided: Option<Undecided<'f>>,
}

impl<'f, S: RefScheme> PageGuardMut<'f, S> {
    pub(crate) fn new(
        mapping: &'f Mapping<S>,
        page: PageNr,
        if_locked: IfLocked,
    ) -> Result<Self, Error> {
        let writes = mapping.writes(Op::Pin)?;
        if !mapping.seems_unclean(page) {
            mapping
                .throttle(writes)
                .map_err(|error| error.with_op(Op::Pin))?;
        }
        let holder = mapping.shared().next_holder();
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

    /// Gives the change a log sequence number. Before the page is given to the storage, the hook gets the highest number of
    /// that page ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    pub fn set_lsn(&mut self, lsn: u64) {
        self.locked.lsn = lsn;
    }

    /// Puts the bytes in place of the page: from now on all readers see them. Other writers still wait, until what this returns is dropped.
    ///
    /// Who changes several pages says by this in which order readers get to see them, and lets other writers in when they have seen all of
    /// them. In which order a tree is to be changed, and why the pages stay locked, is in `docs/guide/views-and-tokens.md`. For one page,
    /// dropping the guard does both.
    pub fn publish(mut self) -> PublishedPage<'f, S> {
        self.locked.publish();
        PublishedPage {
            locked: self.locked,
            stays: PhantomData,
        }
    }

    /// Gives the guard up: the page stays as it is, and so do [tokens](crate::Token) of it.
    pub fn cancel(mut self) {
        self.locked.at_end = AtEnd::Unlocked;
    }

    /// Makes the guard one of no thread, which may be sent to another.
    #[must_use = "the page is replaced when this is dropped"]
    pub fn detach(self) -> DetachedPageGuardMut<'f, S> {
        self.locked.owner(Undecided::detach);
        DetachedPageGuardMut {
            locked: self.locked,
        }
    }
}

impl<'f, S: RefScheme> DetachedPageGuardMut<'f, S> {
    /// As [`PageGuardMut::set_lsn`].
    pub fn set_lsn(&mut self, lsn: u64) {
        self.locked.lsn = lsn;
    }

    /// As [`PageGuardMut::cancel`].
    pub fn cancel(mut self) {
        self.locked.at_end = AtEnd::Unlocked;
    }

    /// Makes the guard one of this thread.
    #[must_use = "the page is replaced when this is dropped"]
    pub fn attach(self) -> PageGuardMut<'f, S> {
        self.locked.owner(Undecided::attach);
        PageGuardMut {
            locked: self.locked,
            stays: PhantomData,
        }
    }
}

impl<S: RefScheme> Deref for PageGuardMut<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl<S: RefScheme> DerefMut for PageGuardMut<'_, S> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.locked.bytes
    }
}

impl<S: RefScheme> Deref for DetachedPageGuardMut<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl<S: RefScheme> DerefMut for DetachedPageGuardMut<'_, S> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.locked.bytes
    }
}

impl<'f, S: RefScheme> LockedPage<'f, S> {
    /// Says whose the guard is; in a child it is nobody's business.
    fn owner(&self, set: fn(&Undecided<'f>)) {
        if let Some(undecided) = &self.undecided
            && self.mapping.shared().home.is_here()
        {
            set(undecided);
        }
    }
}

impl<S: RefScheme> LockedPage<'_, S> {
    /// Puts the bytes in place of the page's.
    fn replace(&mut self, then: ThenLock) {
        let edit = Edit::whole(&self.bytes, self.lsn);
        let lock = (self.holder, then);
        PageLocks(self.mapping).replace_locked(self.page, lock, edit, self.spare.take());
    }

    /// The same before the end; in a child nothing.
    fn publish(&mut self) {
        if self.mapping.shared().home.is_here() {
            self.replace(ThenLock::Stays);
        }
        self.at_end = AtEnd::Unlocked;
    }
}

impl<S: RefScheme> Drop for LockedPage<'_, S> {
    fn drop(&mut self) {
        if !self.mapping.shared().home.is_here() {
            // In a child this changes nothing, and its locks may never be released.
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

impl<S: RefScheme> fmt::Debug for PageGuardMut<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuardMut({} bytes)", self.locked.bytes.len())
    }
}

impl<S: RefScheme> Deref for PublishedPage<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.locked.bytes
    }
}

impl<S: RefScheme> fmt::Debug for PublishedPage<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublishedPage({} bytes)", self.locked.bytes.len())
    }
}

impl<S: RefScheme> fmt::Debug for DetachedPageGuardMut<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachedPageGuardMut({} bytes)", self.locked.bytes.len())
    }
}
