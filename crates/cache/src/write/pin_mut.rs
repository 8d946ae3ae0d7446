//! A page pinned to be changed: a guard with a copy of the page's bytes.
//!
//! There are two guards. One is of the thread that has made it, and stays there; so a call of that thread that would wait for the
//! guard is found, and is an error ([`super::lock_wait`]). The other is of no thread, and may be sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::{LockBit, RefScheme};

use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::dirty::groups::Undecided;
use crate::mapping::record::Mapping;
use crate::write::page_lock::{IfLocked, PageLocks};

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

impl<S: RefScheme> Drop for LockedPage<'_, S> {
    fn drop(&mut self) {
        if !self.mapping.shared().home.is_here() {
            // In a child this changes nothing, and its locks may never be released.
            std::mem::forget(self.undecided.take());
            std::mem::forget(self.spare.take());
            return;
        }
        let edit = Edit::whole(&self.bytes, self.lsn);
        PageLocks(self.mapping).replace_locked(self.page, self.holder, edit, self.spare.take());
    }
}

impl<S: RefScheme> fmt::Debug for PageGuardMut<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuardMut({} bytes)", self.locked.bytes.len())
    }
}

impl<S: RefScheme> fmt::Debug for DetachedPageGuardMut<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetachedPageGuardMut({} bytes)", self.locked.bytes.len())
    }
}
