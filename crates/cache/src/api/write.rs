//! Writes, appends, changes of size, and syncs of a file.

use std::ops::Range;

use crate::api::file::File;
use crate::base::error::{Error, Op};
use crate::dirty::commits::Sync;
use crate::write::growth::{Grower, Writer};
use crate::write::pin_mut::{IfLocked, PageGuardMut};
use crate::writeback::flush::{Flusher, discard};

impl File {
    /// Writes `buf` from byte `offset` on. Returns the number of bytes written: all of them, unless
    /// a page after the first fails. A write of the rest then tries that page again.
    ///
    /// After the call all readers of the cache see the bytes; [`sync_data`](Self::sync_data) makes
    /// them durable. A write within one page is atomic: readers see all of it or nothing. A write
    /// past the end extends the file, and the gap before `offset` reads as zeros.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`FileTooLarge`](crate::ErrorKind::FileTooLarge),
    /// [`Throttled`](crate::ErrorKind::Throttled) at the quota of dirty pages if they cannot be
    /// written back ([`Builder::dirty_limit`](crate::Builder::dirty_limit)),
    /// [`OutOfFrames`](crate::ErrorKind::OutOfFrames) if every page is pinned or cannot be written
    /// back, and those of [`read_at`](Self::read_at) for the rest of a page.
    #[inline]
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, 0))
    }

    /// Writes as [`write_at`](Self::write_at) does, with a log sequence number (0 for none). Before
    /// a page is written to the backend, the writeback callback
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)) gets the highest number of
    /// a write to it. The log must then be durable up to this number, so if the log is a file, pass
    /// the end of the record ([`append`](Self::append)), not its start.
    ///
    /// # Errors
    ///
    /// See [`write_at`](Self::write_at).
    pub fn write_at_lsn(&self, buf: &[u8], offset: u64, lsn: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, lsn))
    }

    /// Writes all of `buf` from byte `offset` on, by calls of [`write_at`](Self::write_at): not
    /// atomically if it extends over several pages.
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at). Pages before the failed one may have been written.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        let mut nr_written = self.write_at(buf, offset)?;
        while nr_written < buf.len() {
            nr_written += self.write_at(&buf[nr_written..], offset + nr_written as u64)?;
        }
        Ok(())
    }

    /// Appends all of `buf` or nothing. Returns the byte range of the file that `buf` occupies.
    ///
    /// The end of the range, never 0, is suitable as the record's log sequence number
    /// ([`write_at_lsn`](Self::write_at_lsn)): once all bytes before it are durable, the record is.
    ///
    /// All pages of an append are dirty before any of them is written back. So its maximum length
    /// is the number of bytes of one file that may be dirty, by default a quarter of the cache's
    /// frames ([`Builder::dirty_limit`](crate::Builder::dirty_limit)), less the bytes that the
    /// file's last page already has. Append larger records in parts.
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at); [`OutOfFrames`](crate::ErrorKind::OutOfFrames) at
    /// once if `buf` is longer than this maximum, which the message contains.
    #[inline]
    pub fn append(&self, buf: &[u8]) -> Result<Range<u64>, Error> {
        self.writes(Op::Write)?;
        self.tells(Grower(&self.mapping).append_bytes(buf, 0))
    }

    /// Appends as [`append`](Self::append) does, with a log sequence number, as
    /// [`write_at_lsn`](Self::write_at_lsn) does.
    ///
    /// # Errors
    ///
    /// See [`write_at`](Self::write_at).
    pub fn append_lsn(&self, buf: &[u8], lsn: u64) -> Result<Range<u64>, Error> {
        self.writes(Op::Write)?;
        self.tells(Grower(&self.mapping).append_bytes(buf, lsn))
    }

    /// Truncates the file to `size`, or extends it with zeros. Guards of truncated pages keep their
    /// bytes. Until the backend has changed its size, all threads see the old size.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`FileTooLarge`](crate::ErrorKind::FileTooLarge),
    /// and [`Io`](crate::ErrorKind::Io) if the backend fails. The size is then the old one, unless
    /// the backend has truncated the file nevertheless, or does not report its size.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.writes(Op::Resize)?;
        self.tells(Grower(&self.mapping).resize(size))
    }

    /// Pins page number `page` for writing: the guard has a copy of the page's bytes, which
    /// replaces the page when the guard is dropped. Until then readers see the old page, and other
    /// threads that write to the page wait. Calls that would wait for the guard of their own thread
    /// fail: another `pin_mut`, and any write or change of size that changes the page.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](crate::ErrorKind::Deadlock) if this thread already has such a guard of the
    /// page, [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Throttled`](crate::ErrorKind::Throttled)
    /// as in [`write_at`](Self::write_at), and those of [`pin`](Self::pin).
    #[inline]
    pub fn pin_mut(&self, page: u64) -> Result<PageGuardMut<'_>, Error> {
        self.writes(Op::Pin)?;
        self.tells(PageGuardMut::new(&self.mapping, page, IfLocked::Wait))
    }

    /// Pins as [`pin_mut`](Self::pin_mut) does, but does not wait for another guard of the page, so
    /// a thread may pin several pages in any order. It may wait for the backend, to read the page
    /// or, at the quota of dirty pages, to make some of them durable.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::ErrorKind::Locked) if any thread has the page pinned for writing, and
    /// those of [`pin_mut`](Self::pin_mut) except `Deadlock`.
    pub fn try_pin_mut(&self, page: u64) -> Result<PageGuardMut<'_>, Error> {
        self.writes(Op::Pin)?;
        self.tells(PageGuardMut::new(&self.mapping, page, IfLocked::Fail))
    }

    /// Removes the cached pages with bytes in `range`, and all bytes written to them since their
    /// last writeback, so that the next read gets the content of the file. If some of these pages
    /// are unsynced, the backend is synced first.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); any writeback error that the handle has not
    /// reported yet; [`Io`](crate::ErrorKind::Io) if the backend fails, or if the file's content is
    /// unknown, since no sync of the whole file has succeeded after a failed one. After an error,
    /// nothing was removed.
    pub fn discard(&self, range: Range<u64>) -> Result<(), Error> {
        let writes = self.writes(Op::Invalidate)?;
        // Earlier errors are reported first, since nothing may have been removed after an error.
        self.tell_earlier(writes, Op::Invalidate)?;
        self.tells(discard(&self.mapping, self.pages_of(range)))
    }

    /// Writes the dirty pages that have any of the bytes in `range` to the backend. Returns the
    /// number of pages written. [`sync_data`](Self::sync_data) makes them durable.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data). Pages that were not written are still dirty.
    pub fn flush(&self, range: Range<u64>) -> Result<usize, Error> {
        self.writes(Op::Flush)?;
        let result = Flusher(&self.mapping).flush(self.pages_of(range));
        self.told(result, Op::Flush)
    }

    /// Makes everything written before the call durable, with the size needed to read it.
    ///
    /// If the backend fails, it is unknown which bytes written since the last successful sync are
    /// durable. They are dirty again, and the next sync writes them. Every handle reports each
    /// error once, including errors in the background, by its next call that can return it.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Io`](crate::ErrorKind::Io) if the backend fails,
    /// [`Refused`](crate::ErrorKind::Refused) if the writeback callback or the page codec refuses a
    /// page; the other pages are made durable nevertheless.
    pub fn sync_data(&self) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync(Sync::Data);
        self.told(result, Op::Sync)
    }

    /// Syncs as [`sync_data`](Self::sync_data) does, and makes other metadata of the file durable.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync(Sync::All);
        self.told(result, Op::Sync)
    }

    /// Makes everything durable that was written before the call to pages with bytes in `range`,
    /// with the size needed to read them. Other dirty pages are not written to the backend, but
    /// pages that it already has ([`flush`](Self::flush)) become durable too.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data).
    pub fn sync_range(&self, range: Range<u64>) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync_range(self.pages_of(range));
        self.told(result, Op::Sync)
    }
}
