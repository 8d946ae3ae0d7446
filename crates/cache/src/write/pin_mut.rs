//! A page to be changed where it is, as a guard that gives access to a copy of its own.

use std::fmt;
use std::ops::{Deref, DerefMut};

use pagewell_frame::UniqueFrame;
use pagewell_frame::refcount::{LockBit, RefScheme};

use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::base::page::PageNr;
use crate::dirty::groups::Undecided;
use crate::mapping::record::Mapping;
use crate::write::page_lock::PageLocks;

/// A page that is about to be replaced: derefs to a copy of its bytes, which becomes the page when the guard is
/// dropped.
///
/// Until then everybody else reads the page as it was, and whoever wants to write to it waits: also the thread that
/// has the guard, which therefore must not.
pub struct PageGuardMut<'f, S: RefScheme = LockBit> {
    mapping: &'f Mapping<S>,
    page: PageNr,
    /// The number of the lock.
    holder: u64,
    /// Memory of the guard's own, and not the frame: stale optimistic readers may be copying from any frame, which
    /// a plain slice does not allow for.
    bytes: Box<[u8]>,
    /// The log sequence number of the change.
    lsn: u64,
    /// Set aside, so that dropping the guard cannot fail: used if somebody holds the page then.
    spare: Option<UniqueFrame<'f, S>>,
    /// Dropped after the page was replaced.
    undecided: Option<Undecided<'f>>,
}

impl<'f, S: RefScheme> PageGuardMut<'f, S> {
    pub(crate) fn new(mapping: &'f Mapping<S>, page: PageNr) -> Result<Self, Error> {
        let undecided = mapping.writes(Op::Pin)?.groups.keep_open();
        let holder = mapping.shared().next_holder();
        let (bytes, spare) = mapping
            .with_room(|| PageLocks(mapping).lock_page(page, holder))
            .map_err(|error| error.with_op(Op::Pin))?;
        Ok(Self {
            mapping,
            page,
            holder,
            bytes,
            lsn: 0,
            spare: Some(spare),
            undecided: Some(undecided),
        })
    }

    /// Gives the change a log sequence number, which a hook is told before the page is given to the storage
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)): the highest one of each page.
    pub fn set_lsn(&mut self, lsn: u64) {
        self.lsn = lsn;
    }
}

impl<S: RefScheme> Deref for PageGuardMut<'_, S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<S: RefScheme> DerefMut for PageGuardMut<'_, S> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl<S: RefScheme> Drop for PageGuardMut<'_, S> {
    fn drop(&mut self) {
        if !self.mapping.shared().home.is_here() {
            // In a child this changes nothing, and its locks may never be let go of.
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
        write!(f, "PageGuardMut({} bytes)", self.bytes.len())
    }
}
