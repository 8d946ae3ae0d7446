//! A file whose pages are shown at addresses: the handle that memory spaces have.
//!
//! Place. A space has one handle for each area that maps a file. The file's index serves as its page table: nothing of a page is
//! kept anywhere else, so eviction, writeback, truncation and migration have no entries to look for.
//!
//! Protocol. Every access comes in two parts, as a fault of the processor does:
//! 1. *Try* ([`MappedFile::try_read`], [`MappedFile::try_edit`], [`MappedFile::try_copy`], [`MappedFile::try_pin`]): look at the
//!    page once. A try neither waits nor allocates, and calls neither the storage nor the program. So the locks of a space may be
//!    held.
//! 2. If the try says what has to be waited for ([`Tried::NotNow`]): let go of all locks, wait ([`MappedFile::wait`],
//!    [`MappedFile::hold`]), and try again. Waiting may read from the storage, write pages back, and call the program's hook.
//!
//! So a fork of a space does not wait for the reading of a page, and a hook may use spaces.
//!
//! Progress. A try is repeated because another thread has changed the page, or has taken away what was waited for. A page that is
//! held stays cached, so a read or a copy of it meets only the former.
//!
//! Cuts. A user that keeps copies of pages ([`FileUser::cut`]) is told when the file gets shorter, under the lock of the file's
//! size: before the file can grow again, or be written to past its new end.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_frame::{FramePool, FrameRef, UniqueFrame};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::thread::Backoff;

use crate::base::edit::Edit;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::slot::State;
use crate::dirty::options::Handle;
use crate::files::opened::Opened;
use crate::mapping::user::FileUser;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::{FastRead, Reader};
use crate::write::lock_wait::{SeenLock, wait_while_locked};
use crate::write::moves::{self, PageMove};
use crate::write::page::{Attempt, Bound, PageWriter, Throttle};

/// The outcome of a try.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Tried {
    /// It was done.
    Done,
    /// The file ends before the access, and nothing was done.
    PastEnd,
    /// Nothing was done: this has to be waited for first.
    NotNow(Wait),
}

/// What an access has to wait for.
#[derive(Debug, PartialEq, Eq)]
pub struct Wait(Why);

#[derive(Debug, PartialEq, Eq)]
enum Why {
    /// The page is not cached.
    Missing,
    /// Another thread is changing the page's place.
    Raced,
    /// The page is pinned to be changed.
    Locked(SeenLock),
    /// The page is held by others, so it has to be written to another frame.
    NeedsFrame,
    /// The file has its share of the frames that may be not clean.
    TooManyUnclean,
}

/// Things that a wait has prepared for the next try of an edit.
#[derive(Debug)]
pub struct Spare<'f, S: RefScheme = LockBit> {
    frame: Option<UniqueFrame<'f, S>>,
    has_made_clean: bool,
    backoff: Backoff,
}

impl<S: RefScheme> Default for Spare<'_, S> {
    fn default() -> Self {
        Self {
            frame: None,
            has_made_clean: false,
            backoff: Backoff::new(),
        }
    }
}

/// A page that stays cached while this exists. Its bytes may be replaced meanwhile.
#[derive(Debug)]
pub struct HeldPage<'f, S: RefScheme = LockBit> {
    _reference: FrameRef<'f, S>,
}

/// A file whose pages are shown at addresses; see the module's text. It keeps the file open.
pub struct MappedFile<S: RefScheme = LockBit> {
    mapping: Opened<S>,
    access: Handle,
}

impl<S: RefScheme> MappedFile<S> {
    pub(crate) fn new(mapping: Opened<S>, access: Handle) -> Self {
        if let Some(writes) = mapping.writes_if_any() {
            writes.add_handle();
        }
        Self { mapping, access }
    }

    /// The size of the file in bytes, as far as the cache knows.
    #[inline]
    pub fn size(&self) -> u64 {
        self.mapping.size()
    }

    /// The size of the file's pages in bytes.
    #[inline]
    pub fn page_size(&self) -> usize {
        self.mapping.page_size()
    }

    /// Whether the handle may be used for writing.
    pub fn is_writable(&self) -> bool {
        self.access == Handle::Write
    }

    /// Whether the file's pages are in frames of `pool`.
    pub fn is_in(&self, pool: &FramePool<S>) -> bool {
        std::ptr::eq(self.mapping.pool(), pool)
    }

    /// Whether both are the same file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.mapping.is_same(&other.mapping)
    }

    /// The one user of the file. If there is none yet, `make` makes it. None if the user is
    /// of another type. The file does not keep it alive.
    pub fn user_or_else<U: FileUser>(&self, make: impl FnOnce() -> Arc<U>) -> Option<Arc<U>> {
        let user: Arc<dyn Any + Send + Sync> = self.mapping.user().get_or_make(|| make());
        user.downcast().ok()
    }

    fn split(&self, pos: u64) -> (u64, usize) {
        (
            pos >> self.mapping.page_shift(),
            pos as usize & (self.page_size() - 1),
        )
    }

    /// Fills `buf` with the bytes from `pos` on, which are of one page, if that hits. If not, `buf` may have been
    /// written to.
    #[inline(always)]
    pub fn try_read_hit(&self, pos: u64, buf: &mut [u8]) -> bool {
        Reader(&self.mapping).read_page_optimistic(pos, buf) == FastRead::Done
    }

    /// Fills `buf` with the bytes from `pos` on, which are of one page. If the file ends within the page, the bytes past
    /// its end are zeros.
    ///
    /// # Errors
    ///
    /// [`TooManyPins`](crate::ErrorKind::TooManyPins).
    pub fn try_read(&self, pos: u64, buf: &mut [u8]) -> Result<Tried, Error> {
        if self.try_read_hit(pos, buf) {
            return Ok(Tried::Done);
        }
        let (page, off) = self.split(pos);
        self.with_page(page, |reference, len| {
            let nr = len.saturating_sub(off).min(buf.len());
            let (of_file, past_end) = buf.split_at_mut(nr);
            reference.bytes().copy_to(off, of_file);
            past_end.fill(0);
        })
    }

    /// Copies page number `page` to `to`, which has a page's size. If the file ends within the page, the bytes past its
    /// end are zeros.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub fn try_copy(&self, page: u64, to: RacyBytes<'_>) -> Result<Tried, Error> {
        self.with_page(page, |reference, len| {
            to.copy_from_racy(0, reference.bytes().slice(0, len));
            to.zero(len, to.len() - len);
        })
    }

    /// Pins page number `page`, if the file has its first `end` bytes: a reference to its frame, whose bytes do not change while
    /// it exists.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub fn try_pin(
        &self,
        page: u64,
        end: usize,
    ) -> Result<(Tried, Option<FrameRef<'_, S>>), Error> {
        let mut pinned = None;
        let tried = self.with_page(page, |reference, len| {
            pinned = (end <= len).then_some(reference);
        })?;
        Ok(match (tried, pinned) {
            (Tried::Done, None) => (Tried::PastEnd, None),
            (tried, pinned) => (tried, pinned),
        })
    }

    /// Calls `work` with a reference to a cached page, and the number of its bytes that are the file's: one at least.
    fn with_page<'f>(
        &'f self,
        page: u64,
        work: impl FnOnce(FrameRef<'f, S>, usize),
    ) -> Result<Tried, Error> {
        let mapping = &*self.mapping;
        let Some(seen) = mapping.index().look(page) else {
            return Ok(Tried::PastEnd);
        };
        Ok(match seen.slot.state() {
            State::Present(_) => match Lookup(mapping).try_get_seen(seen)? {
                Some(Found { reference, end }) => match mapping.len_of(page, end) {
                    0 => Tried::PastEnd,
                    len => {
                        Lookup(mapping).mark_referenced(page, seen);
                        work(reference, len);
                        Tried::Done
                    }
                },
                None => Tried::NotNow(Wait(Why::Raced)),
            },
            State::Busy => Tried::NotNow(Wait(Why::Raced)),
            State::Empty if mapping.len_of(page, mapping.size()) == 0 => Tried::PastEnd,
            State::Empty => Tried::NotNow(Wait(Why::Missing)),
        })
    }

    /// Lets `change` change the `len` bytes from `pos` on, which are of one page, as a write to the file with this
    /// log sequence number (0 for none). All of them must be within the file. `change` may be called again, if the first
    /// call was on bytes that no reader gets to see.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Forked`](crate::ErrorKind::Forked);
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) for bytes that are not of one page.
    pub fn try_edit<'f, R>(
        &'f self,
        (pos, len, lsn): (u64, usize, u64),
        change: impl FnMut(RacyBytes<'_>) -> R,
        spare: &mut Spare<'f, S>,
    ) -> Result<(Tried, Option<R>), Error> {
        let mapping = &*self.mapping;
        mapping.check_home(Op::Write)?;
        let writes = mapping.writes(Op::Write)?;
        let not_now = |why| Ok((Tried::NotNow(Wait(why)), None));
        let throttle = match spare.has_made_clean {
            true => Throttle::Not,
            false => Throttle::AtShare,
        };
        let (page, off) = self.split(pos);
        if len > self.page_size() - off {
            return Err(mapping.error(ErrorKind::OutOfRange, Op::Write));
        }
        let result = RefCell::new((change, None));
        let make = |bytes: RacyBytes<'_>| {
            let (change, made) = &mut *result.borrow_mut();
            *made = Some(change(bytes));
        };
        let edit = Edit::made(off..off + len, &make, lsn);
        let why = match PageWriter(mapping).try_write_page(
            writes,
            page,
            edit,
            (Bound::Within, throttle),
            &mut spare.frame,
        )? {
            Attempt::Done => return Ok((Tried::Done, result.into_inner().1)),
            Attempt::Cut => return Ok((Tried::PastEnd, None)),
            Attempt::Missing if pos.saturating_add(len as u64) > mapping.size() => {
                return Ok((Tried::PastEnd, None));
            }
            Attempt::Missing => Why::Missing,
            Attempt::Raced => Why::Raced,
            Attempt::NeedsFrame => Why::NeedsFrame,
            Attempt::Locked(lock) => Why::Locked(lock),
            Attempt::Throttled => Why::TooManyUnclean,
        };
        not_now(why)
    }

    /// Waits for what a try needs; puts things that have to be kept for the next try into `spare`. No lock is held.
    ///
    /// # Errors
    ///
    /// The errors of a read, or a write, of the file, [`Deadlock`](crate::ErrorKind::Deadlock) if this thread has the page pinned
    /// to be changed; [`OutOfRange`](crate::ErrorKind::OutOfRange) where the file ends before the page.
    pub fn wait<'f>(
        &'f self,
        pos: u64,
        wait: &Wait,
        spare: &mut Spare<'f, S>,
    ) -> Result<(), Error> {
        let mapping = &*self.mapping;
        let (page, _) = self.split(pos);
        mapping.check_home(Op::Read)?;
        match wait.0 {
            Why::Missing => drop(self.hold(page, 1)?),
            Why::Raced => mapping.wait_for_change(page, &mut spare.backoff),
            // That of another cache may name any frame.
            Why::Locked(lock) => {
                if let Some(writes) = mapping.writes_if_any()
                    && lock.frame.index() < mapping.pool().nr_frames()
                {
                    wait_while_locked(mapping, writes, page, lock)?;
                }
            }
            Why::NeedsFrame => {
                let frame = PageWriter(mapping).frame_for_write().or_else(|error| {
                    mapping.make_room(error)?;
                    PageWriter(mapping).frame_for_write()
                });
                spare.frame = Some(frame?);
            }
            Why::TooManyUnclean => {
                mapping.throttle(mapping.writes(Op::Write)?)?;
                spare.has_made_clean = true;
            }
        }
        Ok(())
    }

    /// Gets page number `page` into the cache, if it is not cached, and keeps it there. Missing pages after it are read along,
    /// up to `nr_pages` in all. No lock is held.
    ///
    /// # Errors
    ///
    /// The errors of a read of the file; [`OutOfRange`](crate::ErrorKind::OutOfRange) where the file ends before the
    /// page.
    pub fn hold(&self, page: u64, nr_pages: usize) -> Result<HeldPage<'_, S>, Error> {
        let mapping = &*self.mapping;
        mapping.check_home(Op::Read)?;
        let found = match Lookup(mapping).get(page, || nr_pages) {
            Ok(found) => found,
            Err(error) => Lookup(mapping).get_after(error, page, &|| nr_pages)?,
        };
        Ok(HeldPage {
            _reference: found.reference,
        })
    }

    /// Moves page number `page` to a frame of `node`, if it is cached.
    pub fn move_page(&self, page: u64, node: usize) -> PageMove {
        if !self.mapping.shared().home.is_here() {
            return PageMove::NotCached;
        }
        moves::move_page(&self.mapping, page, node)
    }
}

impl<S: RefScheme> Clone for MappedFile<S> {
    fn clone(&self) -> Self {
        Self::new(self.mapping.clone(), self.access)
    }
}

impl<S: RefScheme> Drop for MappedFile<S> {
    /// As of [`File`](crate::File): the last handle makes everything durable.
    fn drop(&mut self) {
        self.mapping.drop_handle();
    }
}

impl<S: RefScheme> fmt::Debug for MappedFile<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile")
            .field("path", &self.mapping.path())
            .finish_non_exhaustive()
    }
}
