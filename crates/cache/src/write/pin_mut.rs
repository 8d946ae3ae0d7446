//! Page pinned for writing: a guard with a copy of the page's bytes.
//!
//! There are two such guards. One belongs to the thread that has made it, and stays there; so a
//! call of that thread that would wait for the guard is detected and fails ([`super::lock_wait`]).
//! The other belongs to no thread and may be sent. After the bytes of the first are published, a
//! third one remains, which keeps other writers away.

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

/// Guard of a page that is about to be replaced. Dereferences to a copy of its bytes, which becomes
/// the page when the guard is dropped.
///
/// Until then all readers see the old page, and other threads that write to the page wait. If the
/// thread that has the guard makes a call that would wait for it, the call fails with
/// [`Deadlock`](crate::ErrorKind::Deadlock). The guard stays on its thread;
/// [`detach`](Self::detach) makes one that can be sent.
pub struct PageGuardMut<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
    /// As a guard of a mutex: shared, but not sent.
    stays: PhantomData<MutexGuard<'f, ()>>,
}

/// As a [`PageGuardMut`], but belongs to no thread and may be sent to any. A thread that has one
/// and writes to the page by other means deadlocks.
pub struct DetachedPageGuardMut<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
}

/// Guard of a page whose new bytes are published to all readers. Other threads that write to the
/// page wait until this guard is dropped: see [`PageGuardMut::publish`].
pub struct PublishedPage<'f, S: RefScheme = LockBit> {
    locked: LockedPage<'f, S>,
    /// As in [`PageGuardMut`].
    stays: PhantomData<MutexGuard<'f, ()>>,
}

/// Treatment of a locked page when its guard is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtEnd {
    /// The page is replaced and unlocked.
    Replaced,
    /// The page is unlocked and otherwise unchanged.
    Unlocked,
}

/// Locked page with a copy of its bytes. Its drop replaces and unlocks the page, or only unlocks
/// it, as `at_end` says, and does nothing in a fork.
struct LockedPage<'f, S: RefScheme> {
    mapping: &'f Mapping<S>,
    page: PageNr,
    holder: u64,
    /// Memory of the guard, and not the frame: optimistic readers of a reused frame may be copying
    /// from any frame, which a plain slice does not allow.
    bytes: Box<[u8]>,
    lsn: u64,
    at_end: AtEnd,
    /// Spare frame, so that dropping the guard cannot fail: used if the page has other references
    /// then.
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

    /// Sets the log sequence number of the change. Before the page is written to the backend, the
    /// writeback callback gets the highest number of that page
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    pub fn set_lsn(&mut self, lsn: u64) {
        self.locked.lsn = lsn;
    }

    /// Replaces the page's bytes: from now on all readers see the new ones. Other writers still
    /// wait, until the returned guard is dropped.
    ///
    /// A program that changes several pages uses this to define the order in which readers see the
    /// changes, and admits other writers after all of them are visible.
    /// `docs/guide/views-and-tokens.md` describes the order for a tree, and why the pages stay
    /// locked. For one page, dropping the guard does both.
    pub fn publish(mut self) -> PublishedPage<'f, S> {
        self.locked.publish();
        PublishedPage {
            locked: self.locked,
            stays: PhantomData,
        }
    }

    /// Releases the guard without a change: the page stays as it is, and so do
    /// [tokens](crate::Token) of it.
    pub fn cancel(mut self) {
        self.locked.at_end = AtEnd::Unlocked;
    }

    /// Converts the guard into one that belongs to no thread and can be sent.
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

    /// Converts the guard into one of this thread.
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
    /// Records the owner of the guard. Does nothing in a fork.
    fn owner(&self, set: fn(&Undecided<'f>)) {
        if let Some(undecided) = &self.undecided
            && self.mapping.shared().home.is_here()
        {
            set(undecided);
        }
    }
}

impl<S: RefScheme> LockedPage<'_, S> {
    fn replace(&mut self, then: ThenLock) {
        let edit = Edit::whole(&self.bytes, self.lsn);
        let lock = (self.holder, then);
        PageLocks(self.mapping).replace_locked(self.page, lock, edit, self.spare.take());
    }

    /// Replaces the page's bytes before the guard is dropped. Does nothing in a fork.
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
            // In a fork this changes nothing, and its locks may never be released.
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
