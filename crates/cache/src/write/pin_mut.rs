//! Page pinned for writing: a guard with a copy of the page's bytes.
//!
//! [`PageGuardMut`] is owned by the thread that created it, and cannot be sent; a call of this
//! thread that would wait for the guard fails ([`super::lock_wait`]). [`DetachedPageGuardMut`] has
//! no owner and can be sent. [`PublishedPage`] is a `PageGuardMut` whose bytes are published.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use pagewell_frame::UniqueFrame;
use pagewell_sync::MutexGuard;

use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::dirty::groups::Undecided;
use crate::mapping::record::Mapping;
use crate::write::page_lock::{IfLocked, PageLocks, ThenLock};

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
            && self.mapping.shared().home.is_here()
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
        if self.mapping.shared().home.is_here() {
            self.replace(ThenLock::Stays);
        }
        self.at_end = AtEnd::Unlocked;
    }
}

impl Drop for LockedPage<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.mapping.shared().home.is_here() {
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
