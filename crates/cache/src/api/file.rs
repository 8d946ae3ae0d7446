//! Open files: the public handle.

use std::fmt;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsFd as _;
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
/// Handles are cheap to clone. All handles of one file share its cached pages. Any number of
/// threads may use one handle.
///
/// # Guarantees
///
/// - A read within one page is atomic: it returns the page's bytes as they were at one moment. A
///   [view](Self::view) is atomic too. A read of several pages is atomic for each page, not across
///   pages.
/// - In a child made by `fork` only reads and views that are hits succeed. Every other call returns
///   [`Forked`](crate::ErrorKind::Forked) and changes nothing, in the file or in the parent's
///   cache. While the child runs it keeps the parent's files open, and locked if they are open for
///   writing. None of this applies to a child that only calls `exec`. The child must not drop a
///   guard of a page that was replaced before the fork: the drop may wait forever.
/// - When the last handle is dropped, the file is closed: its lock is free for other processes, and
///   its frames are free for other files. Owned pins ([`pin_owned`](Self::pin_owned)) keep their
///   frames and bytes. Only areas of memory spaces that map the file keep it open longer. If the
///   last handle is dropped in a page codec, or in a writeback callback and the file is open for
///   writing, a thread of the cache closes the file later
///   ([`Cache::quiesce`](crate::Cache::quiesce)).
/// - A cached page has the bytes that the file had when the page was filled. If a program changes
///   the file by other means, it calls [`invalidate`](Self::invalidate) or
///   [`refresh`](Self::refresh) to see the changes.
/// - A handle that is not dropped syncs nothing: one in a `static`, or at an exit by
///   [`std::process::exit`]. Then writes of the last 0.2 seconds and more may be lost.
// Fields that a hit loads are not written while the handle is shared. Fields that misses write are
// on other cache lines, wherever the handle lies. If a program keeps the handle in an `Arc`, the
// count in front of the handle is on another cache line too.
#[repr(C)]
pub struct File<S: RefScheme = LockBit> {
    _counts: Gap,
    mapping: Opened<S>,
    access: Handle,
    /// Whether this value is no longer counted as a handle.
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

/// Numbers of pages of a file that are not durable, at the time of the call. Writers and flushers
/// may change them at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// Number of pages with bytes that the backend lacks. A page that was written to during its
    /// writeback is counted both here and in `nr_written`.
    pub nr_dirty: usize,
    /// Number of unsynced pages: submitted to the backend, and not reported durable.
    pub nr_written: usize,
    /// Lower bound of the log sequence numbers ([`File::write_at_lsn`]) of all writes that have
    /// returned and are not durable: recovery may begin there. `None` if there is no such write.
    /// The bound rises with each successful sync of the whole file. It may be lower than necessary
    /// after [`discard`](File::discard) and truncations. The same applies, until the next sync, if
    /// a write was made durable by a sync that was already in progress at the time of the write.
    pub oldest_lsn: Option<u64>,
}

impl<S: RefScheme> File<S> {
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

    /// Returns the file's state for writes, if this handle may be used for writing.
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

    /// Returns an error if this handle may not be used for writing, or if a call that waits for the
    /// file's locks would wait for this thread.
    pub(super) fn check_may_wait(&self, op: Op) -> Result<(), Error> {
        let writes = self.writes(op)?;
        self.mapping.check_no_hook(writes, op)
    }

    /// Reads from byte `offset` on into `buf`. Returns the number of bytes read.
    ///
    /// The number is the length of `buf`, or less if the file ends before, and 0 if `offset` is at
    /// or past the end. Bytes of `buf` beyond the returned length may have been set to zero.
    ///
    /// A read of a cached page acquires no lock. It copies the bytes, and checks afterwards that
    /// the page has not changed. Once the page's accessed bit is set (usually by the first read of
    /// the page), the read writes no shared memory, unless the page keeps changing during the read.
    /// A missing page is read from the file once, however many threads need it.
    ///
    /// # Errors
    ///
    /// If nothing could be read: [`Io`](crate::ErrorKind::Io) if the backend fails,
    /// [`Truncated`](crate::ErrorKind::Truncated) if the file was truncated outside the cache,
    /// [`OutOfFrames`](crate::ErrorKind::OutOfFrames) if every page is pinned. If some pages could
    /// be read before a page failed, their bytes are returned, and the next read returns the error.
    /// After an error `buf` has zeros in place of a failed page.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_any(buf, offset),
        }
    }

    /// Reads as [`read_at`](Self::read_at) does, if the read is a hit of at most 64 bytes within
    /// one page. Returns `true` if all of `buf` was read. Otherwise `buf` may have any bytes, and
    /// the file may still have the requested bytes: the caller then calls `read_at`. This function
    /// acquires no lock, waits for nothing, and calls no code of the program or the backend.
    #[inline(always)]
    #[must_use]
    pub fn try_read_at(&self, buf: &mut [u8], offset: u64) -> bool {
        matches!(
            Reader(&self.mapping).read_short(buf, offset),
            FastRead::Done
        )
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping<S>> {
        self.mapping.mapping()
    }

    pub(super) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Returns the readahead and accessed-bit policy of reads by this handle.
    pub(super) fn guide(&self) -> OfHandle<'_, S> {
        OfHandle::new(self.mapping(), &self.sequence)
    }

    /// Reads as [`read_at`](Self::read_at) does, of any length, whether or not the read is a hit.
    ///
    /// This function itself performs a hit within one page, with few instructions and a small stack
    /// frame: reads at random places overlap as far as they fit into the processor's out-of-order
    /// window, and their stores into its store queue (`docs/adr/0004-hit-path.md`).
    #[inline(never)]
    pub(super) fn read_at_any(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_page_optimistic(offset, buf) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_slowly(buf, offset),
        }
    }

    /// Reads as [`read_at`](Self::read_at) does, if the read covers several pages, or the page is
    /// missing or changing.
    #[inline(never)]
    fn read_at_slowly(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let reader = Reader(&self.mapping);
        if let Err(error) = self.mapping.check_home(Op::Read) {
            reader.wipe(buf);
            return Err(error);
        }
        reader.read_pages(buf, offset, ReadPath::Optimistic, self.guide())
    }

    /// Reads as [`read_at`](Self::read_at) does, but always with a reference to each page: a
    /// baseline for the optimistic read.
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
    /// change during the call. Copies nothing. Once the page's accessed bit is set (usually by the
    /// first read of the page), the first attempts take no reference and write no shared memory.
    ///
    /// If the page has changed during the call, or was evicted, the result of `look` is dropped,
    /// and `look` is called again. After a few attempts the call holds a reference to the page, so
    /// that the page's bytes cannot change. A page that is not cached is read as by
    /// [`read_at`](Self::read_at). The view of the last page ends at the file's size.
    ///
    /// # Rules for the closure
    ///
    /// - **Only the result of the view is consistent.** While the closure runs, two accesses of the
    ///   [`View`] may see different states of the page: an offset from one state may be used in
    ///   another. So the closure should return its result, and have no other effects that matter:
    ///   it may be called any number of times. Values that it has stored in variables of its own
    ///   are consistent after the *last* call, if the view returns `Ok`.
    /// - **Inconsistent bytes are harmless.** All accesses are checked, and an access that fails
    ///   returns [`Torn`], which `?` passes on. A closure that follows offsets in a cycle ends:
    ///   accesses are counted, and every 64th access checks whether the page has changed. If the
    ///   page has not changed, the cycle is in the file, and the view ends after 64 accesses for
    ///   each byte of the page.
    /// - **Other code of the closure is not checked.** The closure must check an index into an
    ///   array of its own as it checks any other input, or call [`View::check`](crate::View::check)
    ///   first. The same applies to the number of iterations of a loop without accesses. A panic
    ///   propagates to the caller, and no lock or reference stays held.
    /// - The closure may use the cache: it may view and write other pages and this page. A view of
    ///   a page that its closure changes is repeated, and sees the change.
    ///
    /// # Errors
    ///
    /// [`Malformed`](crate::ErrorKind::Malformed), with the page, if `look` has returned `Torn`
    /// although the page did not change, or has made too many accesses: offsets in the page lead
    /// out of the page, or form a cycle. Also the errors of [`pin`](Self::pin).
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

    /// Views as [`view`](Self::view) does, if the view is a hit: one call of `look` on a page that
    /// is cached and that no thread changes during the call. If the result is `None`, which implies
    /// nothing about the page, the caller calls `view`. This function acquires no lock, waits for
    /// nothing, and calls no code of the program but `look`.
    #[inline(always)]
    #[must_use]
    pub fn try_view<R, F>(&self, page: u64, mut look: F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view_once(page, &mut look)
    }

    /// Whether the page of `token` is unchanged since the view that returned the token, and no
    /// thread is about to change it. The check takes two loads of shared memory, and writes
    /// nothing.
    ///
    /// So a reader can traverse pages without a pin, and check the path afterwards: it views a
    /// page, which names the next page, views the next page, and checks that the first page is
    /// unchanged. If it is, there was a moment at which the first page was unchanged and the second
    /// page was as its view saw it. For the order in which writers change several pages, and for a
    /// whole tree, see `docs/guide/views-and-tokens.md`.
    ///
    /// A change is any write to the page, even of the same bytes, a change of the file's end within
    /// the page, the removal of the page from the cache, or its move to another frame, even though
    /// the bytes stay the same. Reads, pins and writeback are no changes. However long a token is
    /// kept, a page that has changed is never reported as unchanged. Occasionally an unchanged page
    /// is reported as changed. Returns `false` for the token of another file, and after the file
    /// was closed and opened again.
    #[inline]
    #[must_use]
    pub fn is_unchanged(&self, token: &Token) -> bool {
        self.mapping.is_unchanged(token)
    }

    /// Checks as [`is_unchanged`](Self::is_unchanged) does, but distinguishes a page that has
    /// changed from a page that another thread has claimed: the latter may prove to be unchanged,
    /// for example after a writeback.
    #[inline]
    pub fn token_state(&self, token: &Token) -> TokenState {
        self.mapping.token_state(token)
    }

    /// Pins page number `page` (the bytes from `page * page_size()` on) and gives access to its
    /// bytes in place. They do not change while the guard exists, and the page stays in memory.
    ///
    /// If a page is pinned repeatedly, by any number of threads, its pins write no shared memory: a
    /// thread publishes the pin in a hazard slot of its own (`docs/adr/0031-*`). The guard may be
    /// sent to other threads, and may outlive the thread that created it.
    ///
    /// The guard of the last page ends at the file's size.
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

    /// Pins as [`pin`](Self::pin) does, if the pin writes no shared memory, that is, if the page is
    /// cached and is pinned repeatedly. If the result is `None`, which implies nothing about the
    /// page, the caller calls `pin`. This function acquires no lock, and waits for nothing.
    #[inline(always)]
    #[must_use]
    pub fn try_pin(&self, page: u64) -> Option<PageGuard<'_, S>> {
        PageGuard::announced(&self.mapping, page)
    }

    /// Pins as [`pin`](Self::pin) does, if the pin cannot be published in a hazard slot of this
    /// thread.
    #[inline(never)]
    fn pin_by_count(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin`](Self::pin) does, but always counts the reference to the page: a baseline for
    /// pins in hazard slots.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_counted(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin`](Self::pin) does, but the guard has no lifetime parameter: it may outlive the
    /// handle, the file and the cache. The guard keeps the page's bytes, and the memory that
    /// contains them, but does not keep the file open.
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

    /// See `pin_by_count`.
    #[inline(never)]
    fn pin_owned_by_count(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin_owned`](Self::pin_owned) does, but always counts the reference, as
    /// [`pin_counted`](Self::pin_counted) does: a baseline.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_owned_counted(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Returns the mode of the file's transfers: whether they bypass the kernel's page cache, or
    /// the reason why they do not. Returns `None` for a backend of the program. The mode may
    /// change: the system may refuse a direct transfer although it has reported an alignment.
    pub fn transfers(&self) -> Option<Transfers> {
        self.mapping.backend().file_transfers()
    }

    /// Removes the cached pages that have any of the bytes in `range`, so that the next read
    /// fetches them from the file. Guards of such pages keep their bytes. Pages that are dirty,
    /// unsynced or pinned for writing stay.
    pub fn invalidate(&self, range: Range<u64>) {
        if self.mapping.check_home(Op::Invalidate).is_err() {
            return;
        }
        let pages = self.pages_of(range);
        Remover(&self.mapping).remove(pages.start, pages.end, Unclean::Keep);
    }

    /// Returns the pages that have any of the bytes in `range`.
    pub(super) fn pages_of(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        let page_size = self.mapping.page_size() as u64;
        range.start / page_size..range.end.div_ceil(page_size)
    }

    /// Writes `buf` from byte `offset` on. Returns the number of bytes written. All bytes are
    /// written unless an operation fails after the first page; in this case the next write reports
    /// the error.
    ///
    /// After the call all readers of the cache see the bytes. They are durable after
    /// [`sync_data`](Self::sync_data). A write within one page is atomic: readers see all of it or
    /// nothing. A write past the end extends the file, and the gap between the old end and `offset`
    /// reads as zeros.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`FileTooLarge`](crate::ErrorKind::FileTooLarge),
    /// [`Throttled`](crate::ErrorKind::Throttled) if the file has reached its quota of dirty pages,
    /// and they cannot be written back ([`Builder::dirty_limit`](crate::Builder::dirty_limit)),
    /// [`OutOfFrames`](crate::ErrorKind::OutOfFrames) if every page is pinned or cannot be written
    /// back, and the errors of [`read_at`](Self::read_at), since a write to part of a page first
    /// reads the page.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, 0))
    }

    /// Writes as [`write_at`](Self::write_at) does, with the log sequence number of the write (0
    /// for none). Before a page is written to the backend, the writeback callback gets the highest
    /// number of a write to that page
    /// ([`OpenOptions::before_write`](crate::OpenOptions::before_write)). The log must then be
    /// durable up to this number. So if the log is a file, pass the end of the record
    /// ([`append`](Self::append)), not its start.
    ///
    /// # Errors
    ///
    /// See [`write_at`](Self::write_at).
    pub fn write_at_lsn(&self, buf: &[u8], offset: u64, lsn: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, lsn))
    }

    /// Appends `buf` to the file, all of it or nothing. Returns the byte range of the file that
    /// `buf` occupies.
    ///
    /// The end of that range is suitable as the log sequence number of a record: if all bytes of
    /// the log before that position are durable, the record is durable. No record gets the number
    /// 0, which means that a write has none ([`write_at_lsn`](Self::write_at_lsn)).
    ///
    /// All pages of an append are cached and dirty before any of them is written back. So the
    /// maximum length of one append is the number of bytes of one file that may be dirty at once,
    /// by default a quarter of the cache's frames
    /// ([`Builder::dirty_limit`](crate::Builder::dirty_limit)), less the bytes that the page with
    /// the end of the file already has. Append larger records in parts.
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at). [`OutOfFrames`](crate::ErrorKind::OutOfFrames) at
    /// once, before any page is evicted or written back, if `buf` is longer than this maximum; the
    /// message contains the current maximum.
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

    /// Sets the size of the file. Bytes past the new size are truncated; new bytes are zeros.
    /// Guards of truncated pages keep their bytes. Until the backend has changed its size, all
    /// threads see the old size.
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
    /// threads that write to the page wait. If a call would make the guard's own thread wait for
    /// the guard, the call fails. Such calls are another `pin_mut` of the page, a write to the page
    /// by this file or by a memory space that maps the file, and an [`append`](Self::append) or a
    /// new size that changes the page.
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

    /// Pins for writing as [`pin_mut`](Self::pin_mut) does, but does not wait for another guard of
    /// the page. So a thread that has some pages pinned may pin other pages in any order.
    ///
    /// Like `pin_mut`, this function waits for the backend: if the page is not cached, it is read,
    /// and if the file is at its quota of dirty pages, some of them are made durable first.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::ErrorKind::Locked) if any thread has the page pinned for writing, and
    /// those of [`pin_mut`](Self::pin_mut) except `Deadlock`.
    pub fn try_pin_mut(&self, page: u64) -> Result<PageGuardMut<'_, S>, Error> {
        self.writes(Op::Pin)?;
        self.tells(PageGuardMut::new(&self.mapping, page, IfLocked::Fail))
    }

    /// Removes the cached pages that have any of the bytes in `range`, together with all bytes
    /// written to them since their last writeback, so that the next read gets the content of the
    /// file. If some of these pages were written back and are not durable yet, the backend is
    /// synced first.
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

    /// Makes everything durable that was written to the file before the call, with the size needed
    /// to read it.
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

    /// Syncs as [`sync_data`](Self::sync_data) does, and makes all other metadata of the file
    /// durable.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync(Sync::All);
        self.told(result, Op::Sync)
    }

    /// Makes everything durable that was written before the call to the pages that have any of the
    /// bytes in `range`, with the size needed to read them. Other dirty pages are not written to
    /// the backend. (The backend makes everything durable that it has, including pages written by
    /// [`flush`](Self::flush).)
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
        // Loaded first. If a page becomes clean in between, the result then has the page's LSN
        // without the page, and not the page without its LSN.
        let oldest_lsn = writes.oldest.get();
        let (nr_dirty, nr_written) = writes.nr_pages(mapping.nr_pages());
        FileStats {
            nr_dirty,
            nr_written,
            oldest_lsn,
        }
    }

    /// Returns `result`. If it is an error that every handle reports once, records that this handle
    /// has reported it.
    pub(super) fn tells<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(error), Some(writes)) = (&result, self.mapping.writes_if_any())
            && let Some(cause) = error.noted_cause()
        {
            // Earlier errors of the same cause are covered too, since the caller must write
            // everything again.
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
            // This error also covers earlier ones of the same cause. The next call reports errors
            // of other causes.
            writes.errors.mark(cause, &self.seen);
            return result;
        }
        self.tell_earlier(writes, op)?;
        result
    }

    /// Returns an earlier error that this handle has not reported yet, as an error of the call
    /// `op`.
    fn tell_earlier(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        match writes.errors.take(&self.seen) {
            Some(failure) => Err(Error::from_failure(op, failure).with_path(self.path())),
            None => Ok(()),
        }
    }

    /// Makes everything durable, and closes the handle. A handle for reading makes everything
    /// durable only if it is the last handle of the file. It may then be the handle that reports
    /// the loss of data that was written by other handles.
    ///
    /// A file that is as its opening has found it is not synced
    /// ([`Backend::is_as_found`](pagewell_io::Backend::is_as_found)): what earlier processes have
    /// written to it may not be durable.
    ///
    /// If the backend, the writeback callback or the page codec fails, this function retries until
    /// a second has passed since the first attempt
    /// ([`Builder::close_timeout`](crate::Builder::close_timeout)). Calls in progress are not
    /// interrupted.
    ///
    /// The drop of a handle does the same, and takes as long, but can report an error only on the
    /// program's standard error. Data that was not made durable is then lost.
    ///
    /// # Errors
    ///
    /// The handle, and the error of [`sync_all`](Self::sync_all), which contains the amount of data
    /// that is not durable. As long as a handle exists, the file stays open, and locked by this
    /// process if it is open for writing, and nothing is lost: close the handle again once the
    /// backend works.
    #[allow(clippy::result_large_err)] // The error contains the handle; closing is rare.
    pub fn close(mut self) -> Result<(), (Self, Error)> {
        let saved = match self.access {
            Handle::Read => Ok(()),
            Handle::Write => self.writes(Op::Sync).and_then(|writes| {
                let earlier = writes.errors.take(&self.seen);
                let saved = Flusher(&self.mapping).save_at_the_end();
                // Errors that occurred during the attempts are either resolved or reported by this
                // call.
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
        // This call has work to do only for the last handle; for a handle for writing, all of it is
        // already done.
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

    /// Returns a handle for a user that maps the file's pages, such as a memory space, with the
    /// access rights of this one.
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

    /// Compares the file that `path` resolves to with this file. Returns `Different` for a missing
    /// file, and for every file if the backend of this one has no descriptor. Releases no POSIX
    /// lock of this process.
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
    /// Makes everything durable if this is the last handle. Afterwards the strong reference is
    /// dropped, which closes the file if no other strong reference exists.
    fn drop(&mut self) {
        if !self.is_closed {
            self.mapping.drop_handle();
        }
    }
}

impl<S: RefScheme> Clone for File<S> {
    fn clone(&self) -> Self {
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
