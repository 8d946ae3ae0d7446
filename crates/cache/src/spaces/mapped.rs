//! Mapped file: the handle by which a memory space accesses a file whose pages it maps.
//!
//! Place. A space has one handle for each area that maps a file. The index serves as the page
//! table, so eviction, writeback, truncation and migration have no other entries to search for.
//!
//! Protocol. Every access has two parts, as a page fault does:
//! 1. *Try* ([`MappedFile::try_read`], [`MappedFile::try_edit`], [`MappedFile::try_copy`],
//!    [`MappedFile::try_pin`]): access the page once. A try neither waits nor allocates, and calls
//!    neither the backend nor the program. So the caller may hold the locks of a space.
//! 2. On [`Tried::NotNow`], release all locks, wait ([`MappedFile::wait`], [`MappedFile::hold`]),
//!    and try again. The wait may use the backend and call the writeback callback.
//!
//! So a fork of a space does not wait for the fill of a page, and a callback may use spaces.
//!
//! Progress. A try is repeated because another thread has claimed or changed the page, has pinned
//! or locked it, or has evicted it since the wait. With a [`HeldPage`], only the first reason is
//! left for reads and copies.
//!
//! Truncations. A user that keeps copies of pages is called ([`FileUser::cut`]) under the size
//! lock: before it returns, the file neither grows nor is written to past its new end.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use pagewell_frame::{FramePool, FrameRef, UniqueFrame};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::thread::Backoff;

use crate::base::edit::Edit;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::slot::State;
use crate::dirty::handles::Handle;
use crate::files::opened::Opened;
use crate::mapping::user::FileUser;
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::{FastRead, Reader};
use crate::write::lock_wait::{SeenLock, wait_while_locked};
use crate::write::moves::{self, PageMove};
use crate::write::page::{Attempt, Bound, PageWriter, Throttle};

/// Outcome of a try.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Tried {
    /// The access was performed.
    Done,
    /// Nothing was done, since the file ends before the end of the access.
    PastEnd,
    /// Nothing was done. The caller must first wait for this condition.
    NotNow(Wait),
}

/// Condition for which an access must wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Wait(Why);

#[derive(Debug, PartialEq, Eq)]
enum Why {
    Missing,
    Raced,
    Locked(SeenLock),
    /// The page must be moved, since it has other references.
    NeedsFrame,
    TooManyUnclean,
}

/// Resources that a wait has prepared for the next try of an edit.
#[derive(Debug, Default)]
pub struct Spare<'f> {
    frame: Option<UniqueFrame<'f>>,
    has_made_clean: bool,
    backoff: Backoff,
}

/// Reference that keeps a page cached until a write moves it, or it is truncated or invalidated.
#[derive(Debug)]
pub struct HeldPage<'f> {
    _reference: FrameRef<'f>,
}

/// Handle of a file whose pages are mapped, which keeps the file open. Every access is a try
/// ([`try_read`](Self::try_read) and others), which neither waits nor allocates. On
/// [`Tried::NotNow`], the caller releases its locks, [waits](Self::wait), and tries again.
pub struct MappedFile {
    mapping: Opened,
    access: Handle,
}

impl MappedFile {
    pub(crate) fn new(mapping: Opened, access: Handle) -> Self {
        mapping.add_handle(access);
        Self { mapping, access }
    }

    /// Returns the size of the file in bytes, as the cache has recorded it.
    #[inline]
    pub fn size(&self) -> u64 {
        self.mapping.size()
    }

    /// Returns the size of the file's pages in bytes.
    #[inline]
    pub fn page_size(&self) -> usize {
        self.mapping.page_size()
    }

    /// Whether the handle may be used for writing.
    pub fn is_writable(&self) -> bool {
        self.access == Handle::Write
    }

    /// Whether the file's pages are in frames of `pool`.
    pub fn is_in(&self, pool: &FramePool) -> bool {
        std::ptr::eq(self.mapping.pool(), pool)
    }

    /// Returns the user of the file. If the file has none, `make` creates it. Returns `None` if the
    /// user is of another type. The file does not keep the user alive.
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

    /// As [`try_read`](Self::try_read), if the read is a hit. On `false`, `buf` may have any bytes.
    #[inline(always)]
    pub fn try_read_hit(&self, pos: u64, buf: &mut [u8]) -> bool {
        Reader(&self.mapping).read_page_optimistic(pos, buf) == FastRead::Done
    }

    /// Fills `buf` with the bytes from `pos` on, which must be within one page. If the file ends
    /// within the page, the bytes past its end are zeros.
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

    /// Copies page number `page` to `to`, of the page size, with zeros past the end of the file.
    ///
    /// # Errors
    ///
    /// See [`try_read`](Self::try_read).
    pub fn try_copy(&self, page: u64, to: RacyBytes<'_>) -> Result<Tried, Error> {
        self.with_page(page, |reference, len| {
            to.copy_from_racy(0, reference.bytes().slice(0, len));
            to.zero(len, to.len() - len);
        })
    }

    /// Pins page number `page`, if the file has the page's first `end` bytes. Returns a reference
    /// to its frame, whose bytes do not change while the reference exists.
    ///
    /// # Errors
    ///
    /// See [`try_read`](Self::try_read).
    pub fn try_pin(&self, page: u64, end: usize) -> Result<(Tried, Option<FrameRef<'_>>), Error> {
        let mut pinned = None;
        let tried = self.with_page(page, |reference, len| {
            pinned = (end <= len).then_some(reference);
        })?;
        Ok(match (tried, pinned) {
            (Tried::Done, None) => (Tried::PastEnd, None),
            (tried, pinned) => (tried, pinned),
        })
    }

    /// Calls `work` with a reference to a cached page, and the number of its bytes, at least one.
    fn with_page<'f>(
        &'f self,
        page: u64,
        work: impl FnOnce(FrameRef<'f>, usize),
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

    /// Calls `change` on the `len` bytes from `pos` on, within one page and the file, as a write
    /// with LSN `lsn` (or 0). `change` may be called again if no reader can see its first result.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Forked`](crate::ErrorKind::Forked);
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) for bytes that are not within one page.
    pub fn try_edit<'f, R>(
        &'f self,
        (pos, len, lsn): (u64, usize, u64),
        change: impl FnMut(RacyBytes<'_>) -> R,
        spare: &mut Spare<'f>,
    ) -> Result<(Tried, Option<R>), Error> {
        let mapping = &*self.mapping;
        mapping.check_home(Op::Write)?;
        let writes = mapping.writes(Op::Write)?;
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
        Ok((Tried::NotNow(Wait(why)), None))
    }

    /// Waits for the condition `wait` that a try has returned, and stores resources for the next
    /// try in `spare`. The caller must hold no lock.
    ///
    /// # Errors
    ///
    /// Those of a read or write; [`Deadlock`](crate::ErrorKind::Deadlock) if this thread has pinned
    /// the page for writing; [`OutOfRange`](crate::ErrorKind::OutOfRange) past the file's end.
    pub fn wait<'f>(&'f self, pos: u64, wait: &Wait, spare: &mut Spare<'f>) -> Result<(), Error> {
        let mapping = &*self.mapping;
        let (page, _) = self.split(pos);
        mapping.check_home(Op::Read)?;
        match wait.0 {
            Why::Missing => drop(self.hold(page, 1)?),
            Why::Raced => Lookup(mapping).wait_for_change(page, &mut spare.backoff)?,
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

    /// Fills page number `page` if it is not cached, and missing pages after it, `nr_pages` at
    /// most. The result keeps the page cached ([`HeldPage`]). The caller must hold no lock.
    ///
    /// # Errors
    ///
    /// Those of a read; [`OutOfRange`](crate::ErrorKind::OutOfRange) past the end of the file.
    pub fn hold(&self, page: u64, nr_pages: usize) -> Result<HeldPage<'_>, Error> {
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

    /// Moves page number `page` to a frame of `node`, if the page is cached.
    pub fn move_page(&self, page: u64, node: usize) -> PageMove {
        if !self.mapping.shared.home.is_here() {
            return PageMove::NotCached;
        }
        moves::move_page(&self.mapping, page, node)
    }
}

impl Clone for MappedFile {
    fn clone(&self) -> Self {
        Self::new(self.mapping.clone(), self.access)
    }
}

impl Drop for MappedFile {
    /// As for a [`File`](crate::File), makes everything durable if this is the last handle.
    fn drop(&mut self) {
        self.mapping.drop_handle(self.access);
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile")
            .field("path", &self.mapping.path())
            .finish_non_exhaustive()
    }
}
