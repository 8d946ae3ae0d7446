//! Open files, as users hold them.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pagewell_frame::refcount::{LockBit, RefScheme};

use crate::ahead::Sequence;
use crate::error::{Error, Op};
use crate::guard::{OwnedPageGuard, PageGuard};
use crate::mapping::Mapping;
use crate::read::{FastRead, ReadPath};

/// An open file, read through the cache.
///
/// Handles are cheap to clone; all handles of one file share its cached pages. Any number of threads
/// may use one handle.
///
/// # What is promised
///
/// - A read within one page is atomic: it gives the page's bytes as they were at one moment. A read
///   of several pages is atomic for each page, not for all of them.
/// - Cached pages are as the file was when they were read in. Who changes the file by other means calls
///   [`invalidate`](Self::invalidate) or [`refresh`](Self::refresh) to see it.
pub struct File<S: RefScheme = LockBit> {
    mapping: Arc<Mapping<S>>,
    sequence: Sequence,
}

impl<S: RefScheme> File<S> {
    pub(crate) fn new(mapping: Arc<Mapping<S>>) -> Self {
        let sequence = Sequence::new(mapping.page_size(), mapping.shared().pool.nr_frames());
        Self { mapping, sequence }
    }

    /// Reads from byte `offset` on into `buf`; returns how many bytes were read.
    ///
    /// That is the length of `buf`, or less where the file ends; 0 at or past the end. Bytes of `buf`
    /// beyond the returned length may have been set to zero.
    ///
    /// Reads of cached pages write nothing that threads share, and take no lock: they copy and check
    /// afterwards. Missing pages are read from the file, each once however many threads want it.
    ///
    /// # Errors
    ///
    /// If nothing could be read: [`Io`](crate::ErrorKind::Io) when the storage fails,
    /// [`Truncated`](crate::ErrorKind::Truncated) when the file has become shorter behind the cache's
    /// back, [`OutOfFrames`](crate::ErrorKind::OutOfFrames) when every page is pinned. If some pages
    /// could be read before one failed, their bytes are returned, and the next read reports the
    /// failure. After an error `buf` holds zeros where a failed page would have been.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match self.mapping.read_short(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_any(buf, offset),
        }
    }

    /// [`read_at`](Self::read_at) for reads of any length, hits or not.
    #[inline(never)]
    fn read_at_any(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.mapping
            .read_pages(buf, offset, ReadPath::Optimistic, |page, wanted| {
                self.sequence.on_miss(page, wanted)
            })
    }

    /// As [`read_at`](Self::read_at), but always with a reference to each page: what the optimistic
    /// read replaces, kept to be compared with it.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub fn read_at_referenced(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.mapping
            .read_pages(buf, offset, ReadPath::Referenced, |page, wanted| {
                self.sequence.on_miss(page, wanted)
            })
    }

    /// Pins page number `page` (the bytes from `page * page_size()` on) and gives access to its bytes
    /// where they are. They do not change while the guard exists, and the page stays in memory.
    ///
    /// The last page's guard is cut at the file's size.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) when the page begins at or past the end of the file,
    /// [`TooManyPins`](crate::ErrorKind::TooManyPins) after 2^30 of them, and what
    /// [`read_at`](Self::read_at) can fail with.
    pub fn pin(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// As [`pin`](Self::pin), but the guard owns a share of the file and borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    pub fn pin_owned(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::new(Arc::clone(&self.mapping), page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Drops the cached pages that have any of the bytes in `range`, so that the next read fetches
    /// them from the file. Guards of such pages keep the bytes that they have.
    pub fn invalidate(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let page_size = self.mapping.page_size() as u64;
        self.mapping
            .remove(range.start / page_size, range.end.div_ceil(page_size));
    }

    /// Takes over the size that the file has now; returns it. Pages that a change of size has made wrong
    /// are dropped, other pages stay as they are.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when the storage does not tell the size,
    /// [`FileTooLarge`](crate::ErrorKind::FileTooLarge) when the file has grown to more than four times the
    /// size that it was opened with, and by more than 64 MiB: then drop all its handles and open it anew.
    pub fn refresh(&self) -> Result<u64, Error> {
        self.mapping.refresh(Op::Invalidate)
    }

    /// The size of the file in bytes, as far as the cache knows.
    pub fn size(&self) -> u64 {
        self.mapping.size()
    }

    /// The size of the file's pages in bytes.
    pub fn page_size(&self) -> usize {
        self.mapping.page_size()
    }

    /// The path that the file was first opened with.
    pub fn path(&self) -> &Path {
        self.mapping.path()
    }
}

impl<S: RefScheme> Clone for File<S> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.mapping))
    }
}

impl<S: RefScheme> fmt::Debug for File<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path())
            .field("size", &self.size())
            .field("page_size", &self.page_size())
            .finish_non_exhaustive()
    }
}
