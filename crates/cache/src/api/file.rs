//! Open files: the public handle.

use std::fmt;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_io::Transfers;
use pagewell_io::identity::{self, Comparison};
use pagewell_sync::Arc;
use pagewell_sync::shard::{Gap, LINES};

use crate::base::error::{Cause, Error, ErrorKind, Op};
use crate::dirty::commits::Sync;
use crate::dirty::errors::Seen;
use crate::dirty::options::Handle;
use crate::dirty::writes::Writes;
use crate::files::opened::Opened;
use crate::files::same;
use crate::index::token::{Token, TokenState};
use crate::mapping::record::Mapping;
use crate::mapping::refresh::refresh;
use crate::mapping::remove::{Remover, Unclean};
use crate::read::ahead::Sequence;
use crate::read::guide::OfHandle;
use crate::read::look::Torn;
use crate::read::pin::{OwnedPageGuard, PageGuard};
use crate::read::reader::{FastRead, Guide, ReadPath, Reader};
use crate::read::view::View;
use crate::read::viewer::Viewer;
use crate::spaces::mapped::MappedFile;
use crate::write::bytes::Writer;
use crate::write::growth::Grower;
use crate::write::page_lock::IfLocked;
use crate::write::pin_mut::PageGuardMut;
use crate::writeback::discard::discard;
use crate::writeback::flush::Flusher;

/// Open file, read through the cache.
///
/// Handles are cheap to clone, usable by any number of threads, and share the file's cached pages.
///
/// # Guarantees
///
/// - A read within one page and a [view](Self::view) are atomic: they see the page as it was at one
///   moment. A read of several pages is atomic for each page, not across pages.
/// - In a child made by `fork`, reads and views succeed only as hits. Other calls return
///   [`Forked`](crate::ErrorKind::Forked) and change nothing. The child keeps the parent's files
///   open, and locked if open for writing, unless it only calls `exec`. It must not drop a guard of
///   a page that was replaced before the fork: the drop may wait forever.
/// - The drop of the last handle closes the file, which frees its lock and frames, except those of
///   owned pins ([`pin_owned`](Self::pin_owned)). Areas of memory spaces that map the file keep it
///   open. After a drop in a page codec, or in a writeback callback if the file is open for
///   writing, a thread of the cache closes it later ([`Cache::quiesce`](crate::Cache::quiesce)).
/// - A cached page has the bytes that the file had at its fill. To see changes made by other means,
///   a program calls [`invalidate`](Self::invalidate) or [`refresh`](Self::refresh).
/// - A handle that is not dropped syncs nothing: one in a `static`, or at an exit by
///   [`std::process::exit`]. Then writes of the last 0.2 seconds and more may be lost.
// Fields that hits load are not written while the handle is shared. Wherever the handle lies, they
// share no cache line with fields that misses write, or with the counts of an `Arc` in front of it.
#[repr(C)]
pub struct File<S: RefScheme = LockBit> {
    _counts: Gap,
    mapping: Opened<S>,
    access: Handle,
    is_closed: bool,
    _hits: Gap,
    sequence: Sequence,
    /// Writeback errors that this handle has reported.
    seen: Seen,
}

const _: () = {
    type F = File<LockBit>;
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
    /// successful sync of the whole file raises it. It may be lower than necessary after
    /// [`discard`](File::discard) and truncations. If a sync in progress at a write made that write
    /// durable, it is too low until the next sync.
    pub oldest_lsn: Option<u64>,
}

impl<S: RefScheme> File<S> {
    /// Creates a handle. The caller has counted it if it may write ([`Opened::add_writer`]).
    pub(crate) fn new(mapping: Opened<S>, access: Handle) -> Self {
        let sequence = Sequence::new(mapping.page_size(), mapping.pool().nr_frames());
        let seen = mapping.writes_if_any().map(|writes| {
            writes.add_handle();
            writes.errors.seen()
        });
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

    /// Reads from byte `offset` on into `buf`. Returns the number of bytes read: the length of
    /// `buf`, or less if the file ends before (0 at or past the end). Bytes of `buf` beyond them
    /// may have been set to zero.
    ///
    /// A read of a cached page acquires no lock. Once the page's accessed bit is set (usually by
    /// its first read), it writes no shared memory, unless the page keeps changing. A missing page
    /// is read from the file once, however many threads need it.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the backend fails,
    /// [`Truncated`](crate::ErrorKind::Truncated) if the file was truncated outside the cache,
    /// [`OutOfFrames`](crate::ErrorKind::OutOfFrames) if every page is pinned. `buf` then has zeros
    /// for the page. If pages before it were read, they are returned, and the next read fails.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_any(buf, offset),
        }
    }

    /// Reads as [`read_at`](Self::read_at) does, if the read is a hit of at most 64 bytes within
    /// one page. On `false`, `buf` may have any bytes, and the caller calls `read_at`. Acquires no
    /// lock, waits for nothing, and calls no code of the program or backend.
    #[inline(always)]
    #[must_use]
    pub fn try_read_at(&self, buf: &mut [u8], offset: u64) -> bool {
        matches!(
            Reader(&self.mapping).read_short(buf, offset),
            FastRead::Done
        )
    }

    /// Reads from byte `offset` on until `buf` is full.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) (as an [`io::Error`]
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof)) if the file ends before `buf` is full, and
    /// those of [`read_at`](Self::read_at). After an error, `buf` has unspecified bytes.
    #[inline]
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(()),
            FastRead::Fallback => self.read_all_of(buf, offset),
        }
    }

    #[inline(never)]
    fn read_all_of(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let mut nr_read = 0;
        while nr_read < buf.len() {
            // Past the largest offset there are no bytes.
            let pos = offset.saturating_add(nr_read as u64);
            match self.read_at_any(&mut buf[nr_read..], pos)? {
                0 => {
                    let nr_missing = buf.len() - nr_read;
                    let detail = format!("{nr_missing} of {} bytes are missing", buf.len());
                    let error = self.mapping.error(ErrorKind::OutOfRange, Op::Read);
                    return Err(error.with_detail(detail));
                }
                nr => nr_read += nr,
            }
        }
        Ok(())
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping<S>> {
        self.mapping.mapping()
    }

    pub(super) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    pub(super) fn guide(&self) -> OfHandle<'_, S> {
        OfHandle::new(self.mapping(), &self.sequence)
    }

    /// Reads as [`read_at`](Self::read_at) does, of any length. A hit within one page takes few
    /// instructions and little stack, so that random reads overlap in the processor's out-of-order
    /// window and store queue (`docs/adr/0004-hit-path.md`).
    #[inline(never)]
    pub(super) fn read_at_any(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_page_optimistic(offset, buf) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_slowly(buf, offset),
        }
    }

    #[inline(never)]
    fn read_at_slowly(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let reader = Reader(&self.mapping);
        if let Err(error) = self.mapping.check_home(Op::Read) {
            reader.wipe(buf);
            return Err(error);
        }
        reader.read_pages(buf, offset, ReadPath::Optimistic, self.guide())
    }

    /// Reads with a reference to each page: a baseline for optimistic reads.
    ///
    /// # Errors
    ///
    /// See [`read_at`](Self::read_at).
    #[cfg(feature = "baselines")]
    pub fn read_at_referenced(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.mapping.check_home(Op::Read)?;
        Reader(&self.mapping).read_pages(buf, offset, ReadPath::Referenced, self.guide())
    }

    /// Calls `look` on page number `page` in place, and returns the result if the page did not
    /// change during the call. Copies nothing. Once the page's accessed bit is set, the first
    /// attempts take no reference and write no shared memory.
    ///
    /// If the page has changed or was evicted, `look` is called again, after a few attempts with a
    /// reference, so that the bytes cannot change. A page that is not cached is read as by
    /// [`read_at`](Self::read_at). The view of the last page ends at the file's size.
    ///
    /// # Rules for the closure
    ///
    /// - **Only the result of the view is consistent.** Two accesses of the [`View`] may see
    ///   different states of the page. The closure may be called any number of times, so it should
    ///   have no effects except its result. Variables that it has set are consistent after the
    ///   *last* call, if the view returns `Ok`.
    /// - **Inconsistent bytes are harmless.** A failed access returns [`Torn`], which `?` passes
    ///   on. A closure that follows a cycle of offsets ends: every 64th access checks whether the
    ///   page has changed, and a view of an unchanged page ends after 64 accesses per byte.
    /// - **Other code of the closure is not checked.** The closure must check an index or a loop
    ///   length that it reads, as any other input, or call [`View::check`](crate::View::check)
    ///   first. A panic propagates, and no lock or reference stays held.
    /// - The closure may use the cache. If it changes the page of the view, the view is repeated.
    ///
    /// # Errors
    ///
    /// [`Malformed`](crate::ErrorKind::Malformed), with the page, if offsets in the page lead out
    /// of it or form a cycle; and the errors of [`pin`](Self::pin).
    ///
    /// # Example
    ///
    /// The page is a node with slots. It begins with the number of keys (two bytes). For each key,
    /// in ascending order, the offset in the page (two bytes) and the length (two bytes) follow.
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// use pagewell::{Cache, Error, File};
    ///
    /// /// The number of `key` in the node, or of the first larger one.
    /// fn find(file: &File, page: u64, key: &[u8]) -> Result<Result<usize, usize>, Error> {
    ///     file.view(page, |v| {
    ///         let count = v.u16_le(0)?.into();
    ///         v.search(2, 4, count, |v, slot| {
    ///             let start = usize::from(v.u16_le(slot)?);
    ///             let len = usize::from(v.u16_le(slot + 2)?);
    ///             v.part(start..start + len)?.compare_all(key)
    ///         })
    ///     })
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut node = vec![0; 4096];
    /// node[0] = 3;
    /// for (nr, key) in [&b"ant"[..], b"bee", b"cicada"].into_iter().enumerate() {
    ///     let start = 1000 + 10 * nr;
    ///     node[start..][..key.len()].copy_from_slice(key);
    ///     node[2 + 4 * nr..][..2].copy_from_slice(&(start as u16).to_le_bytes());
    ///     node[4 + 4 * nr..][..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    /// }
    /// let cache = Cache::builder().capacity(16 << 20).build()?;
    /// let file = cache.open_backend(pagewell::io::MemoryBackend::new(node), "node")?;
    /// assert_eq!(find(&file, 0, b"bee")?, Ok(1));
    /// assert_eq!(find(&file, 0, b"cat")?, Err(2));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn view<R, F>(&self, page: u64, look: F) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view(page, look, || self.guide().on_miss(page, 1))
    }

    /// Views a page like [`view`](Self::view), but only if it is cached and no thread changes it,
    /// with one call of `look`. On `None`, which implies nothing about the page, the caller calls
    /// `view`. Acquires no lock, waits for nothing, and calls only `look`.
    #[inline(always)]
    #[must_use]
    pub fn try_view<R, F>(&self, page: u64, mut look: F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view_once(page, &mut look)
    }

    /// Whether the page of `token` is unchanged since the view that returned the token, and no
    /// thread is about to change it. Takes two loads of shared memory, and writes nothing.
    ///
    /// So a reader can traverse pages without pins: it views a page, then the page that this page
    /// names, and checks that the first is unchanged. If so, both were at one moment as the views
    /// saw them. `docs/guide/views-and-tokens.md` describes writers of several pages, and trees.
    ///
    /// A change is any write to the page, even of the same bytes, a change of the file's end within
    /// it, its removal from the cache, or its move to another frame; not a read, pin or writeback.
    /// However long a token is kept, a changed page is never reported as unchanged. Occasionally an
    /// unchanged page is reported as changed. Tokens of other files or earlier openings return
    /// `false`.
    #[inline]
    #[must_use]
    pub fn is_unchanged(&self, token: &Token) -> bool {
        self.mapping.is_unchanged(token)
    }

    /// Checks as [`is_unchanged`](Self::is_unchanged) does, but distinguishes a changed page from a
    /// claimed one, which may prove to be unchanged, for example after a writeback.
    #[inline]
    pub fn token_state(&self, token: &Token) -> TokenState {
        self.mapping.token_state(token)
    }

    /// Pins page number `page` (the bytes from `page * page_size()` on) and gives access to its
    /// bytes in place. They do not change while the guard exists, and the page stays in memory.
    ///
    /// Repeated pins of a page, by any number of threads, write no shared memory: each is published
    /// in a hazard slot of its thread (`docs/adr/0031-*`). The guard may be sent to other threads,
    /// and may outlive its thread. The guard of the last page ends at the file's size.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if the page begins at or past the end of the
    /// file, [`TooManyPins`](crate::ErrorKind::TooManyPins) after 2^30 pins, and the errors of
    /// [`read_at`](Self::read_at).
    #[inline]
    pub fn pin(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        match PageGuard::announced(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_by_count(page),
        }
    }

    /// Pins as [`pin`](Self::pin) does, if this writes no shared memory. On `None`, which implies
    /// nothing about the page, the caller calls `pin`. Acquires no lock, and waits for nothing.
    #[inline(always)]
    #[must_use]
    pub fn try_pin(&self, page: u64) -> Option<PageGuard<'_, S>> {
        PageGuard::announced(&self.mapping, page)
    }

    /// Pins by a counted reference, after an attempt to pin by a hazard slot has failed.
    #[inline(never)]
    fn pin_by_count(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins by a counted reference: a baseline for pins in hazard slots.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_counted(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin`](Self::pin) does. The guard may outlive the handle, file and cache: it keeps
    /// the page's bytes and their memory, but does not keep the file open.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[inline]
    pub fn pin_owned(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        match OwnedPageGuard::announced(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_owned_by_count(page),
        }
    }

    #[inline(never)]
    fn pin_owned_by_count(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin_owned`](Self::pin_owned) does, by a counted reference: a baseline.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_owned_counted(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Returns whether transfers bypass the kernel's page cache, or why not; `None` for a backend
    /// of the program. The mode may change, since the system may refuse a direct transfer.
    pub fn transfers(&self) -> Option<Transfers> {
        self.mapping.backend().file_transfers()
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

    /// Writes `buf` from byte `offset` on. Returns the number of bytes written: all of them, unless
    /// a page after the first fails. The next write then reports the error.
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

    /// Writes all of `buf` from byte `offset` on, as [`write_at`](Self::write_at) does. (A write of
    /// several pages is not atomic.)
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at). The pages before the failed one may have been
    /// written.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        let mut nr_written = self.write_at(buf, offset)?;
        while nr_written < buf.len() {
            // No overflow: the write has reached this offset.
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
    pub fn append(&self, buf: &[u8]) -> Result<Range<u64>, Error> {
        self.writes(Op::Write)?;
        self.tells(Grower(&self.mapping).append_bytes(buf, 0))
    }

    /// Appends as [`append`](Self::append) does, with the log sequence number of the write, as
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
    /// and [`Io`](crate::ErrorKind::Io) if the backend fails. After a failure the size is still the
    /// old one, except that a truncation may have taken effect: the size is the new one if the
    /// backend has truncated the file nevertheless, or does not report its size.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.writes(Op::Resize)?;
        self.tells(Grower(&self.mapping).resize(size))
    }

    /// Pins page number `page` for writing: the guard has a copy of the page's bytes, which
    /// replaces the page when the guard is dropped. Until then readers see the old page, and other
    /// threads that write to the page wait. Calls that would wait for the guard of their own thread
    /// fail: another `pin_mut` of the page, a write to it by this file or a memory space, and an
    /// [`append`](Self::append) or a new size that changes it.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](crate::ErrorKind::Deadlock) if this thread already has such a guard of the
    /// page, [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Throttled`](crate::ErrorKind::Throttled)
    /// as in [`write_at`](Self::write_at), and those of [`pin`](Self::pin).
    pub fn pin_mut(&self, page: u64) -> Result<PageGuardMut<'_, S>, Error> {
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
    pub fn try_pin_mut(&self, page: u64) -> Result<PageGuardMut<'_, S>, Error> {
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
    /// reported yet; and [`Io`](crate::ErrorKind::Io) in two cases: the backend fails, or a sync
    /// has failed since the last successful sync of the whole file, so that the file's content is
    /// unknown. After an error, nothing was removed.
    pub fn discard(&self, range: Range<u64>) -> Result<(), Error> {
        let writes = self.writes(Op::Invalidate)?;
        // Earlier errors are reported first, since nothing may have been removed after an error.
        self.tell_earlier(writes, Op::Invalidate)?;
        self.tells(discard(&self.mapping, self.pages_of(range)))
    }

    /// Writes the dirty pages that have any of the bytes in `range` to the backend. Returns the
    /// number of pages written. They are not durable before [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), and [`Io`](crate::ErrorKind::Io) if the backend
    /// fails; the pages are then still dirty.
    pub fn flush(&self, range: Range<u64>) -> Result<usize, Error> {
        self.writes(Op::Flush)?;
        let result = Flusher(&self.mapping).flush(self.pages_of(range));
        self.told(result, Op::Flush)
    }

    /// Makes everything written before the call durable, with the size needed to read it.
    ///
    /// After an error it is unknown which bytes written since the last successful sync are durable.
    /// All of them are dirty again, and the next sync writes them again. Every handle reports each
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

    /// Syncs as [`sync_data`](Self::sync_data) does, with all other metadata of the file.
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

    /// Returns the numbers of pages that are not durable, and the oldest LSN, for a checkpoint.
    /// Waits neither for the backend nor for locks that are held during its calls.
    pub fn stats(&self) -> FileStats {
        let mapping = &self.mapping;
        let Some(writes) = mapping.writes_if_any() else {
            return FileStats::default();
        };
        // Loaded first: if a page becomes clean in between, the result lacks the page, not its LSN.
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

    /// Returns `result` of the call `op`, or an error that this handle has not reported yet.
    pub(super) fn told<T>(&self, result: Result<T, Error>, op: Op) -> Result<T, Error> {
        let result = result.map_err(|error| error.with_op(op));
        let Some(writes) = self.mapping.writes_if_any() else {
            return result;
        };
        let is_of_storage = |error: &Error| error.kind() == ErrorKind::Io;
        let cause = result.as_ref().err().and_then(|error| {
            let of_storage = is_of_storage(error).then_some(Cause::Storage);
            error.noted_cause().or(of_storage)
        });
        if let Some(cause) = cause {
            writes.errors.mark(cause, &self.seen);
            return result;
        }
        self.tell_earlier(writes, op)?;
        result
    }

    fn tell_earlier(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        match writes.errors.take(&self.seen) {
            Some(failure) => Err(Error::from_failure(op, failure).with_path(self.path())),
            None => Ok(()),
        }
    }

    /// Makes everything durable, and closes the handle. A handle for reading makes everything
    /// durable only if it is the last handle. It may then report the loss of other handles' writes.
    ///
    /// A file that is as its opening has found it is not synced
    /// ([`Backend::is_as_found`](pagewell_io::Backend::is_as_found)): what earlier processes have
    /// written to it may not be durable.
    ///
    /// If the backend, the writeback callback or the page codec fails, the call is retried for a
    /// second from the first attempt ([`Builder::close_timeout`](crate::Builder::close_timeout)).
    /// Calls in progress are not interrupted. The drop of a handle does the same, but reports an
    /// error only on standard error, and the data that is not durable is lost.
    ///
    /// # Errors
    ///
    /// The handle, and the error of [`sync_all`](Self::sync_all) with the amount of data that is
    /// not durable. While a handle exists, the file stays open, and locked if it is open for
    /// writing, and nothing is lost: close the handle again once the backend works.
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
        match saved.and_then(|()| self.mapping.close_handle()) {
            Ok(()) => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Queries the backend for the file's current size, adopts the size, and returns it. Removes
    /// the pages that a change of size has made invalid; other pages stay.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the backend does not report the size,
    /// [`FileTooLarge`](crate::ErrorKind::FileTooLarge) if the file is now larger than four times
    /// its size at open plus 64 MiB (1 TiB if this cache has it open for writing): then drop all
    /// its handles and open it again.
    pub fn refresh(&self) -> Result<u64, Error> {
        self.mapping.check_home(Op::Invalidate)?;
        refresh(&self.mapping, Op::Invalidate)
    }

    /// Returns a handle for a user that maps the file's pages, with the access rights of this one.
    pub fn mapped(&self) -> MappedFile<S> {
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
    /// a backend of the program, and in a child of `fork`.
    ///
    /// The cache does not see what is changed through the descriptor: see
    /// [`invalidate`](Self::invalidate) and [`refresh`](Self::refresh). The descriptor must not be
    /// used to write, to truncate, to change flags, or, if the cache has locked the file, to lock
    /// or unlock any part of it.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.check_home(Op::Open).ok()?;
        self.mapping.target().descriptor()
    }

    /// Compares the file that `path` resolves to with this file. Returns `Different` for a missing
    /// file, and if this one's backend has no descriptor. Releases no POSIX lock of this process.
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
        let Some(descriptor) = self.mapping.target().descriptor() else {
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

impl<S: RefScheme> Drop for File<S> {
    /// Makes everything durable if this is the last handle, before the strong reference is dropped.
    fn drop(&mut self) {
        if !self.is_closed {
            self.mapping.drop_handle();
        }
        self.mapping.remove_writer(self.access);
    }
}

impl<S: RefScheme> Clone for File<S> {
    fn clone(&self) -> Self {
        self.mapping.add_writer(self.access);
        Self::new(self.mapping.clone(), self.access)
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
