//! Open files: the public handle.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::{fmt, io};

use pagewell_io::Transfers;
use pagewell_io::identity::{self, Comparison};
use pagewell_sync::Arc;
use pagewell_sync::shard::{Gap, LINES};

use crate::base::error::{Cause, Error, ErrorKind, Op};
use crate::dirty::errors::Seen;
use crate::dirty::handles::Handle;
use crate::dirty::writes::Writes;
use crate::files::opened::Opened;
use crate::files::same;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean, refresh};
use crate::read::ahead::{OfHandle, Sequence};
use crate::spaces::mapped::MappedFile;
use crate::writeback::flush::Flusher;

/// Open file, read through the cache.
///
/// Handles are cheap to clone, usable by any number of threads, and share the file's cached pages.
///
/// # Guarantees
///
/// - A read within one page and a [view](Self::view) are atomic: they see the page as it was at one
///   moment. A read of several pages is atomic for each page, not across pages.
/// - In a child made by `fork`, reads and views succeed only as hits. Other calls, except queries,
///   return [`Forked`](crate::ErrorKind::Forked) and change nothing. Unless it only calls `exec`,
///   the child keeps the parent's files open, and locked if open for writing. It must not drop a
///   guard of a page that was replaced before the fork: the drop may wait forever.
/// - The drop of the last handle closes the file, which frees its lock and frames, except those of
///   owned pins ([`pin_owned`](Self::pin_owned)). Areas of memory spaces that map the file keep it
///   open. After a drop in a page codec, or in a writeback callback if the file is open for
///   writing, a thread of the cache closes it later ([`Cache::quiesce`](crate::Cache::quiesce)).
/// - A cached page has the bytes of its fill and of later writes. To see changes made by other
///   means, a program calls [`invalidate`](Self::invalidate) or [`refresh`](Self::refresh).
/// - A handle that is not dropped (in a `static`, or at [`std::process::exit`]) syncs nothing.
///   Writes that were not written back yet, such as those of the last 0.2 seconds, are then lost.
// Hits load fields that are not written while the handle is shared. They share no cache line with
// fields that misses write, or with the counts of an `Arc` in front of the handle.
#[repr(C)]
pub struct File {
    _counts: Gap,
    pub(super) mapping: Opened,
    access: Handle,
    is_closed: bool,
    _hits: Gap,
    pub(super) sequence: Sequence,
    seen: Seen,
}

const _: () = {
    type F = File;
    assert!(offset_of!(F, mapping) >= LINES);
    assert!(offset_of!(F, sequence) >= offset_of!(F, is_closed) + 1 + LINES);
    assert!(offset_of!(F, seen) > offset_of!(F, sequence));
};

/// Numbers of pages of a file that were not durable at the time of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// Number of pages with bytes that the backend lacks. They may also count in `nr_written`.
    pub nr_dirty: usize,
    /// Number of unsynced pages: submitted to the backend, and not reported durable.
    pub nr_written: usize,
    /// Lower bound of the log sequence numbers ([`File::write_at_lsn`]) of all writes that have
    /// returned and are not durable: recovery may begin there. `None` if there is none. Each
    /// successful sync of the whole file may raise it. It may be lower than necessary after
    /// [`discard`](File::discard), truncations, and, until the next sync, writes during a sync.
    pub oldest_lsn: Option<u64>,
}

impl File {
    /// Creates a handle. The caller has counted it.
    pub(crate) fn new(mapping: Opened, access: Handle) -> Self {
        let sequence = Sequence::new(mapping.page_size(), mapping.pool().nr_frames());
        let seen = mapping.writes_if_any().map(|writes| writes.errors.seen());
        Self {
            _counts: Gap::NEW,
            mapping,
            access,
            is_closed: false,
            _hits: Gap::NEW,
            sequence,
            seen: seen.unwrap_or_default(),
        }
    }

    #[inline]
    pub(super) fn writes(&self, op: Op) -> Result<&Writes, Error> {
        match op {
            // The code that waits in a write checks whether this thread may wait.
            Op::Write => self.mapping.check_process(op)?,
            _ => self.mapping.check_home(op)?,
        }
        match self.access {
            Handle::Write => self.mapping.writes(op),
            Handle::Read => Err(self.mapping.error(ErrorKind::ReadOnly, op)),
        }
    }

    /// Checks that this handle may write, and that a wait for the file's locks is no deadlock.
    pub(super) fn check_may_wait(&self, op: Op) -> Result<(), Error> {
        let writes = self.writes(op)?;
        self.mapping.check_no_hook(writes, op)
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.mapping.mapping()
    }

    pub(super) fn guide(&self) -> OfHandle<'_> {
        OfHandle::new(self.mapping(), &self.sequence)
    }

    /// Returns whether transfers bypass the kernel's page cache, or why not; `None` if the backend
    /// does not report it. The mode may change, since the system may refuse a direct transfer.
    pub fn transfers(&self) -> Option<Transfers> {
        self.mapping.backend.file_transfers()
    }

    /// Removes the cached pages with bytes in `range`, so that the next read fetches them from the
    /// file. Dirty and unsynced pages and pages pinned for writing stay. Guards keep their bytes.
    pub fn invalidate(&self, range: Range<u64>) {
        if self.mapping.check_home(Op::Invalidate).is_err() {
            return;
        }
        let pages = self.pages_of(range);
        Remover(&self.mapping).remove(pages.start, pages.end, Unclean::Keep);
    }

    pub(super) fn pages_of(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        let page_size = self.mapping.page_size() as u64;
        range.start / page_size..range.end.div_ceil(page_size)
    }

    /// Returns the numbers of pages that are not durable, and the oldest LSN, for a checkpoint.
    /// Waits neither for the backend nor for locks that are held during its calls.
    pub fn stats(&self) -> FileStats {
        let mapping = &self.mapping;
        let Some(writes) = mapping.writes_if_any() else {
            return FileStats::default();
        };
        // Loaded first: if a page becomes clean in between, only the counts lack the page.
        let oldest_lsn = writes.oldest.get();
        let (nr_dirty, nr_written) = writes.nr_pages(mapping.nr_pages());
        FileStats {
            nr_dirty,
            nr_written,
            oldest_lsn,
        }
    }

    /// Records that this handle has reported an error that every handle reports once.
    pub(super) fn tells<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(error), Some(writes)) = (&result, self.mapping.writes_if_any())
            && let Some(cause) = error.noted_cause()
        {
            // This covers earlier errors of the same cause: the caller must write everything again.
            writes.errors.mark(cause, &self.seen);
        }
        result
    }

    pub(super) fn told<T>(&self, result: Result<T, Error>, op: Op) -> Result<T, Error> {
        let result = result.map_err(|error| error.with_op(op));
        let Some(writes) = self.mapping.writes_if_any() else {
            return result;
        };
        let cause = result.as_ref().err().and_then(|error| {
            let of_storage = (error.kind() == ErrorKind::Io).then_some(Cause::Storage);
            error.noted_cause().or(of_storage)
        });
        if let Some(cause) = cause {
            writes.errors.mark(cause, &self.seen);
            return result;
        }
        self.tell_earlier(writes, op)?;
        result
    }

    pub(super) fn tell_earlier(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        match writes.errors.take(&self.seen) {
            Some(failure) => Err(Error::from_failure(op, failure).with_path(self.path())),
            None => Ok(()),
        }
    }

    /// Makes everything durable, and closes the handle. A handle for reading makes writes durable
    /// only if it is the last handle, and may then report the loss of other handles' writes.
    ///
    /// If neither the opening nor the cache has changed the file
    /// ([`Backend::is_as_found`](pagewell_io::Backend::is_as_found)), it is not synced: writes of
    /// earlier processes may not be durable.
    ///
    /// If the backend, the writeback callback or the page codec fails, the call is retried for a
    /// second from the first attempt ([`Builder::close_timeout`](crate::Builder::close_timeout)).
    /// Calls in progress are not interrupted. The drop of a handle does the same, but reports
    /// errors, and the loss of data, only on standard error.
    ///
    /// # Errors
    ///
    /// The handle, and the error of [`sync_all`](Self::sync_all) with the amount of data that is
    /// not durable. Nothing is lost while a handle exists: close it again once the backend works.
    /// Until then the file stays open, and locked if it is open for writing.
    #[allow(clippy::result_large_err)] // The error contains the handle; closing is rare.
    pub fn close(mut self) -> Result<(), (Self, Error)> {
        let saved = match self.access {
            Handle::Read => Ok(()),
            Handle::Write => self.writes(Op::Sync).and_then(|writes| {
                let earlier = writes.errors.take(&self.seen);
                let saved = Flusher(&self.mapping).save_at_the_end();
                // Errors during the attempts are either resolved or reported by this call.
                Cause::ALL
                    .into_iter()
                    .for_each(|cause| writes.errors.mark(cause, &self.seen));
                match earlier {
                    Some(failure) if saved.is_ok() => {
                        Err(Error::from_failure(Op::Sync, failure).with_path(self.path()))
                    }
                    _ => saved,
                }
            }),
        };
        // Saves the file if this is its last handle; a handle for writing has already done so.
        match saved.and_then(|()| self.mapping.close_handle(self.access)) {
            Ok(()) => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Queries the backend for the file's current size, adopts the size, and returns it. Removes
    /// the pages that a change of size has made invalid; other pages stay. If this cache has the
    /// file open for writing, only returns the recorded size.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the backend does not report the size,
    /// [`FileTooLarge`](crate::ErrorKind::FileTooLarge) if the file is now larger than four times
    /// its size at open plus 64 MiB, or, in a process with few addresses, than its size at open
    /// plus 64 MiB: then drop all its handles and open it again.
    pub fn refresh(&self) -> Result<u64, Error> {
        self.mapping.check_home(Op::Invalidate)?;
        refresh(&self.mapping, Op::Invalidate)
    }

    /// Returns a handle for a user that maps the file's pages, with the access rights of this one.
    pub fn mapped(&self) -> MappedFile {
        MappedFile::new(self.mapping.clone(), self.access)
    }

    /// Returns the size of the file in bytes, as the cache has recorded it.
    pub fn size(&self) -> u64 {
        self.mapping.size()
    }

    /// Returns the size of the file's pages in bytes.
    pub fn page_size(&self) -> usize {
        self.mapping.page_size()
    }

    /// Returns the path by which the file was first opened.
    pub fn path(&self) -> &Path {
        self.mapping.path()
    }

    /// Returns the file's descriptor, for calls that the cache does not make (`fallocate(2)` within
    /// the file's size, attributes, locks if the file was opened with `FileLock::None`). `None` for
    /// a backend without one, in a child of `fork`, and in a page codec. The cache does not see
    /// changes made through it: see [`invalidate`](Self::invalidate) and
    /// [`refresh`](Self::refresh). The descriptor must not be used to write, to truncate, to change
    /// flags, or, if the cache has locked the file, to lock or unlock any part of it.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.check_home(Op::Open).ok()?;
        self.mapping.target.descriptor()
    }

    /// Compares the file that `path` resolves to with this file. Returns `Different` for a missing
    /// file, and if this file's backend has no descriptor. Releases no POSIX lock of this process.
    ///
    /// # Errors
    ///
    /// [`AmbiguousFile`](ErrorKind::AmbiguousFile) if `path` resolves to another file with the same
    /// device and inode number; also errors of the system when it resolves the path.
    pub fn compare_path(&self, path: impl AsRef<Path>) -> Result<Comparison, Error> {
        let path = path.as_ref();
        self.mapping.check_home(Op::Open)?;
        let failed = |error| Error::of_open(error, path);
        let named = match identity::named(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Comparison::Different);
            }
            named => named.map_err(failed)?,
        };
        let Some(descriptor) = self.mapping.target.descriptor() else {
            return Ok(Comparison::Different);
        };
        let this = identity::id_of(descriptor).map_err(failed)?;
        if this != identity::id_of(named.as_fd()).map_err(failed)? {
            return Ok(Comparison::Different);
        }
        let is_proven = same::is_proven(&self.mapping, named.as_fd());
        Ok(match is_proven.map_err(|error| error.with_path(path))? {
            true => Comparison::Same,
            false => Comparison::Unproven,
        })
    }
}

impl Drop for File {
    /// Makes everything durable if this is the last handle, before the strong reference is dropped.
    fn drop(&mut self) {
        if !self.is_closed {
            self.mapping.drop_handle(self.access);
        }
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        let mapping = self.mapping.clone();
        mapping.add_handle(self.access);
        Self::new(mapping, self.access)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path())
            .field("size", &self.size())
            .field("page_size", &self.page_size())
            .finish_non_exhaustive()
    }
}
