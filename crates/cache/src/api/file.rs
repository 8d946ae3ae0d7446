//! Open files, as users hold them.

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

/// An open file, read through the cache.
///
/// Handles are cheap to clone; all handles of one file share its cached pages. Any number of threads
/// may use one handle.
///
/// # What is promised
///
/// - A read within one page is atomic: it gives the page's bytes as they were at one moment. So is a [view](Self::view). A read
///   of several pages is atomic for each page, not for all of them.
/// - A child made by `fork` gets [`Forked`](crate::ErrorKind::Forked) from every call but a read or a view that is a hit, and
///   changes nothing, in the file or in the cache of its parent. As long as it runs it keeps the parent's files open,
///   and locked if they are open for writing. None of this applies to a child that only calls `exec`. A guard that
///   the child drops may wait for ever if its page was replaced before the fork: such a child must not drop it.
/// - When the last handle has been dropped, the file is closed: its lock is free for other processes, and its frames are
///   free for other files, but those of pins that borrow nothing ([`pin_owned`](Self::pin_owned)), which keep their bytes. One thing keeps the file
///   open longer: areas of memory spaces that show it. If the last handle goes in a hook, a thread of the cache closes the file
///   later ([`Cache::quiesce`](crate::Cache::quiesce)).
/// - Cached pages are as the file was when they were read in. A program that changes the file by other means calls
///   [`invalidate`](Self::invalidate) or [`refresh`](Self::refresh) to see it.
// What a hit loads is not written while the handle is shared. What misses write is on other lines, wherever the handle lies; and
// so is the count in front of it, if a program keeps it in an `Arc`.
#[repr(C)]
pub struct File<S: RefScheme = LockBit> {
    _counts: Gap,
    mapping: Opened<S>,
    access: Handle,
    /// Whether it counts as a handle no more.
    is_closed: bool,
    _hits: Gap,
    sequence: Sequence,
    /// The failures of writing back that this handle was told of.
    seen: Seen,
}

const _: () = {
    type F = File<LockBit>;
    assert!(offset_of!(F, mapping) >= LINES);
    assert!(offset_of!(F, sequence) >= offset_of!(F, is_closed) + 1 + LINES);
    assert!(offset_of!(F, seen) > offset_of!(F, sequence));
};

/// What of a file is not durable. The numbers are of the moment; writers and flushers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// How many pages have bytes that the storage was not given. A page that was written to while it was written back counts here and below.
    pub nr_dirty: usize,
    /// How many pages the storage was given, and has not reported durable.
    pub nr_written: usize,
    /// Of all writes with a log sequence number ([`File::write_at_lsn`]) that have returned and are not durable, none has a lower number: recovery may begin
    /// there. None if there is no such write. It rises with each sync of all of the file that succeeds, and may be lower than it need be: until
    /// the next sync after the one that has made the write durable, if that was under way when the write was made, and after
    /// [`discard`](File::discard) and cuts.
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

    /// The file's state for writes, if this handle may be used for writing.
    pub(super) fn writes(&self, op: Op) -> Result<&Writes, Error> {
        match op {
            // What makes a write wait asks whether it may.
            Op::Write => self.mapping.check_process(op)?,
            _ => self.mapping.check_home(op)?,
        }
        match self.access {
            Handle::Write => self.mapping.writes(op),
            Handle::Read => Err(self.mapping.error(ErrorKind::ReadOnly, op)),
        }
    }

    /// An error if this handle may not be used for writing, or a call that waits for the file's locks would wait for this thread.
    pub(super) fn check_may_wait(&self, op: Op) -> Result<(), Error> {
        let writes = self.writes(op)?;
        self.mapping.check_no_hook(writes, op)
    }

    /// Reads from byte `offset` on into `buf`; returns how many bytes were read.
    ///
    /// That is the length of `buf`, or less where the file ends; 0 at or past the end. Bytes of `buf`
    /// beyond the returned length may have been set to zero.
    ///
    /// Reads of cached pages write nothing that threads share, and take no lock: they copy and check
    /// afterwards. A missing page is read from the file once, however many threads want it.
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
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_any(buf, offset),
        }
    }

    /// As [`read_at`](Self::read_at), if that is a hit, within one page and of up to 64 bytes: whether all of `buf` was read. If not, nothing is known of the
    /// bytes, and `buf` may have any; then call `read_at`. It takes no lock, waits for nobody, and calls nothing.
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

    /// What its reads do beside reading.
    pub(super) fn guide(&self) -> OfHandle<'_, S> {
        OfHandle::new(self.mapping(), &self.sequence)
    }

    /// [`read_at`](Self::read_at) for reads of any length, hits or not.
    ///
    /// A hit within one page is done here, with few instructions and little on the stack: reads at random places overlap as far as they fit into the
    /// processor's window, and what they store until then fits into its queue of stores (`docs/adr/0004-hit-path.md`).
    #[inline(never)]
    pub(super) fn read_at_any(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_page_optimistic(offset, buf) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_slowly(buf, offset),
        }
    }

    /// [`read_at`](Self::read_at) for reads of several pages, and where the page is not there, or changes.
    #[inline(never)]
    fn read_at_slowly(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let reader = Reader(&self.mapping);
        if let Err(error) = self.mapping.check_home(Op::Read) {
            reader.wipe(buf);
            return Err(error);
        }
        reader.read_pages(buf, offset, ReadPath::Optimistic, self.guide())
    }

    /// A baseline: as [`read_at`](Self::read_at), but always with a reference to each page, which the optimistic read
    /// replaces.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    #[cfg(feature = "baselines")]
    pub fn read_at_referenced(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.mapping.check_home(Op::Read)?;
        Reader(&self.mapping).read_pages(buf, offset, ReadPath::Referenced, self.guide())
    }

    /// Has `look` look at page number `page` where it is, and returns its answer, if the page did not change meanwhile. No copy is
    /// made, no reference taken, and nothing written that threads share.
    ///
    /// If the page has changed during the look, or was evicted, what `look` has returned is dropped, and it is called again;
    /// after a few times, with a reference to the page, as which the page cannot change. A page that is not cached is read as by
    /// [`read_at`](Self::read_at). The last page's view is cut at the file's size.
    ///
    /// # What the closure may rely on
    ///
    /// - **Only what the view returns is true.** While the closure runs, two accesses of the [`View`] may not agree with each
    ///   other: an offset of one state of the page may be used in another. So the closure returns what it has found, and has no
    ///   effects that matter beside that; it may be called any number of times. What it has written to variables of its own is
    ///   the page's after the *last* call, if the view returns `Ok`.
    /// - **It cannot go wrong by that.** All accesses are checked, and fail with [`Torn`], which `?` passes on. A
    ///   closure that follows offsets in a circle ends: accesses are counted, and each 64th finds out whether the page has
    ///   changed. If it has not, the circle is in the file; then the look ends after 64 accesses for each byte of the page.
    /// - **What it does by itself is its own.** An index into an array of its own has to be checked as any other input, or
    ///   [`View::check`](crate::View::check) be called first; and so has a number of rounds that look at nothing. A panic goes on
    ///   to the caller, with nothing held.
    /// - It may use the cache as it likes: view other pages, and this one, and write to them. A look at a page that its closure
    ///   changes is repeated, and sees the change.
    ///
    /// # Errors
    ///
    /// [`Malformed`](crate::ErrorKind::Malformed), with the page, when `look` has returned `Torn` though the page did not change,
    /// or has looked too long: so it is if what the page says leads out of it. All else as [`pin`](Self::pin).
    ///
    /// # Example
    ///
    /// A node with slots: the number of keys; for each, in ascending order, where it is in the page (two bytes) and its length
    /// (two bytes).
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*; pub mod io { pub use pagewell_io::MemoryBackend; } }
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

    /// As [`view`](Self::view), if that is a hit: one look at a page that is cached, and that nobody changes meanwhile. None says nothing of the page; then call
    /// `view`. It takes no lock, waits for nobody, and calls nothing but `look`.
    #[inline(always)]
    #[must_use]
    pub fn try_view<R, F>(&self, page: u64, mut look: F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view_once(page, &mut look)
    }

    /// Whether the page of `token` is as it was seen by the view that the token is of, and nobody is about to change it: two loads, and
    /// nothing is written.
    ///
    /// So a reader goes from page to page without a pin, and finds out afterwards whether the way was right: it views a page, which names
    /// the next one; views that; and asks whether the first is unchanged. If it is, it was so at the moment at which
    /// the second page was what the view has seen. The order in which writers change several pages, and a whole tree, are in
    /// `docs/guide/views-and-tokens.md`.
    ///
    /// What counts as a change: any write to the page, also of the same bytes, and an end of the file that moves within it; taking it out of the
    /// cache, and moving it to another frame, though its bytes are the same then. Reading, pinning and writing
    /// back are none. However long a token is kept, a page that has changed is not taken for unchanged; now and then an unchanged one is
    /// taken for changed. With the token of another file the answer is `false`, and so it is after the file was closed and opened again.
    #[inline]
    #[must_use]
    pub fn is_unchanged(&self, token: &Token) -> bool {
        self.mapping.is_unchanged(token)
    }

    /// As [`is_unchanged`](Self::is_unchanged), and tells a page that has changed from one that somebody has just claimed: the latter
    /// may turn out to be unchanged, as when it was only written back.
    #[inline]
    pub fn token_state(&self, token: &Token) -> TokenState {
        self.mapping.token_state(token)
    }

    /// Pins page number `page` (the bytes from `page * page_size()` on) and gives access to its bytes
    /// in place. They do not change while the guard exists, and the page stays in memory.
    ///
    /// To pin a page that is pinned again and again, by however many threads, writes nothing that threads share: a thread announces the pin
    /// in memory of its own (`docs/adr/0031-*`). The guard may be sent to other threads, and outlive the thread all the same.
    ///
    /// The last page's guard is cut at the file's size.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) when the page begins at or past the end of the file,
    /// [`TooManyPins`](crate::ErrorKind::TooManyPins) after 2^30 of them, and the errors of
    /// [`read_at`](Self::read_at).
    #[inline]
    pub fn pin(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        match PageGuard::announced(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_by_count(page),
        }
    }

    /// As [`pin`](Self::pin), if that writes nothing that threads share: of a page that is pinned again and again, and cached. None says nothing of the page; then call
    /// `pin`. It takes no lock, and waits for nobody.
    #[inline(always)]
    #[must_use]
    pub fn try_pin(&self, page: u64) -> Option<PageGuard<'_, S>> {
        PageGuard::announced(&self.mapping, page)
    }

    /// [`pin`](Self::pin), of pages of which pins are not announced, or not by this thread.
    #[inline(never)]
    fn pin_by_count(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// A baseline: as [`pin`](Self::pin), but the reference to the page is always counted, where pins of pages that are pinned again and again are
    /// announced.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_counted(&self, page: u64) -> Result<PageGuard<'_, S>, Error> {
        PageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// As [`pin`](Self::pin), but the guard borrows nothing: it may outlive the handle, the file and the cache. It keeps the page's bytes, and the
    /// memory that they are in; it does not keep the file open.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    #[inline]
    pub fn pin_owned(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        match OwnedPageGuard::announced(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_owned_by_count(page),
        }
    }

    /// As `pin_by_count`.
    #[inline(never)]
    fn pin_owned_by_count(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// A baseline: as [`pin_owned`](Self::pin_owned), but always counted, as [`pin_counted`](Self::pin_counted).
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    pub fn pin_owned_counted(&self, page: u64) -> Result<OwnedPageGuard<S>, Error> {
        OwnedPageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// How the file's bytes are transferred: past the operating system's cache, or why not; none if the storage is one of the program's
    /// own. It may change: the system may refuse a direct transfer though it has told an alignment.
    pub fn transfers(&self) -> Option<Transfers> {
        self.mapping.backend().file_transfers()
    }

    /// Drops the cached pages that have any of the bytes in `range`, so that the next read fetches
    /// them from the file. Guards of such pages keep their bytes. Pages with writes that the file does not
    /// have yet stay.
    pub fn invalidate(&self, range: Range<u64>) {
        if self.mapping.check_home(Op::Invalidate).is_err() {
            return;
        }
        let pages = self.pages_of(range);
        Remover(&self.mapping).remove(pages.start, pages.end, Unclean::Keep);
    }

    /// The pages that have any of the bytes in `range`.
    pub(super) fn pages_of(&self, range: Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        let page_size = self.mapping.page_size() as u64;
        range.start / page_size..range.end.div_ceil(page_size)
    }

    /// Writes `buf` from byte `offset` on; returns how many bytes were written. These are all, unless something failed
    /// after the first page; then the next write reports the error.
    ///
    /// After the call all readers of the cache see the bytes. They are durable after [`sync_data`](Self::sync_data).
    /// A write within one page is atomic: readers see all of it or nothing. A write past the end makes the file
    /// longer, and the gap between the old end and `offset` reads as zeros.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`FileTooLarge`](crate::ErrorKind::FileTooLarge),
    /// [`Throttled`](crate::ErrorKind::Throttled) when the file has as many dirty pages as it may have, and they cannot be
    /// written back ([`Builder::dirty_limit`](crate::Builder::dirty_limit)), [`OutOfFrames`](crate::ErrorKind::OutOfFrames) when
    /// every page is pinned or cannot be written back, and the errors of [`read_at`](Self::read_at), since a write to a part of a
    /// page reads the page first.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, 0))
    }

    /// As [`write_at`](Self::write_at), with the log sequence number of the write; 0 for none. Before a page is given to the
    /// storage, the hook gets the highest number of that page ([`OpenOptions::before_write`](crate::OpenOptions::before_write)).
    /// The number says how far the log has to be durable then: of a log that is a file, take the end of the record
    /// ([`append`](Self::append)), not its start.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    pub fn write_at_lsn(&self, buf: &[u8], offset: u64, lsn: u64) -> Result<usize, Error> {
        self.writes(Op::Write)?;
        self.tells(Writer(&self.mapping).write_bytes(buf, offset, lsn))
    }

    /// Writes `buf` at the end of the file, all of it or nothing; returns the bytes of the file that it is now.
    ///
    /// The end of that range is a good log sequence number for a record: all bytes of the log before it are durable, so is the
    /// record; and no record has number 0, which stands for none ([`write_at_lsn`](Self::write_at_lsn)).
    ///
    /// All of it is in the cache before any of it is written back. So the most that one call can append is what may be dirty at
    /// once of one file, a quarter of the cache's frames ([`Builder::dirty_limit`](crate::Builder::dirty_limit)), less what the
    /// page with the end of the file has already. Larger records are appended in parts.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at). [`OutOfFrames`](crate::ErrorKind::OutOfFrames) at once, before any page is evicted or
    /// written back, when `buf` is longer than that; the message says how much would do.
    pub fn append(&self, buf: &[u8]) -> Result<Range<u64>, Error> {
        self.writes(Op::Write)?;
        self.tells(Grower(&self.mapping).append_bytes(buf, 0))
    }

    /// As [`append`](Self::append), with the log sequence number of the write, as
    /// [`write_at_lsn`](Self::write_at_lsn).
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    pub fn append_lsn(&self, buf: &[u8], lsn: u64) -> Result<Range<u64>, Error> {
        self.writes(Op::Write)?;
        self.tells(Grower(&self.mapping).append_bytes(buf, lsn))
    }

    /// Gives the file a new size. Bytes past it are gone; new bytes are zeros. Guards of pages that are cut off
    /// keep their bytes. Until the storage has changed the size, everybody sees the old one.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`FileTooLarge`](crate::ErrorKind::FileTooLarge), and
    /// [`Io`](crate::ErrorKind::Io) when the storage fails. After that the size is still the old one; it is the new one
    /// if the storage has cut the file all the same, or does not tell.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.writes(Op::Resize)?;
        self.tells(Grower(&self.mapping).resize(size))
    }

    /// Pins page number `page` to be changed: gives a copy of its bytes, which replaces the page when the guard is dropped. Until
    /// then readers see the old page, and other threads that want to write to it wait. A call that would make the guard's own
    /// thread wait for it fails: another `pin_mut` of the page, a write to it by this file or by a memory space that shows it, an
    /// [`append`](Self::append) or a new size that changes it.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](crate::ErrorKind::Deadlock) if this thread has such a guard of the page already,
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Throttled`](crate::ErrorKind::Throttled) as of [`write_at`](Self::write_at), and as
    /// [`pin`](Self::pin).
    pub fn pin_mut(&self, page: u64) -> Result<PageGuardMut<'_, S>, Error> {
        self.writes(Op::Pin)?;
        self.tells(PageGuardMut::new(&self.mapping, page, IfLocked::Wait))
    }

    /// As [`pin_mut`](Self::pin_mut), but does not wait for another guard of the page, so that a thread that has some pages
    /// pinned may go for others in any order.
    ///
    /// The storage is waited for, as by `pin_mut`: a page that is not cached is read. If the file
    /// has its share of dirty pages, some are made durable first.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::ErrorKind::Locked) if the page is pinned to be changed, by whatever thread; all but `Deadlock` of
    /// [`pin_mut`](Self::pin_mut).
    pub fn try_pin_mut(&self, page: u64) -> Result<PageGuardMut<'_, S>, Error> {
        self.writes(Op::Pin)?;
        self.tells(PageGuardMut::new(&self.mapping, page, IfLocked::Fail))
    }

    /// Drops the cached pages that have any of the bytes in `range`, with everything written to them since their last
    /// writeback: the next read gets what the file has. If some of them were written back and are not
    /// durable yet, the storage first makes durable what it has.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Io`](crate::ErrorKind::Io) when the storage fails, or when its last
    /// sync failed, so that its content is not known, and any failure to write back that the handle was not told of yet. Nothing is
    /// dropped then.
    pub fn discard(&self, range: Range<u64>) -> Result<(), Error> {
        let writes = self.writes(Op::Invalidate)?;
        // Told first: whoever gets an error must find that nothing was dropped.
        self.tell_earlier(writes, Op::Invalidate)?;
        self.tells(discard(&self.mapping, self.pages_of(range)))
    }

    /// Gives the dirty pages that have any of the bytes in `range` to the storage; returns how many pages it
    /// gave. They are not durable before [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), and [`Io`](crate::ErrorKind::Io) when the storage fails; the pages
    /// are still dirty then.
    pub fn flush(&self, range: Range<u64>) -> Result<usize, Error> {
        self.writes(Op::Flush)?;
        let result = Flusher(&self.mapping).flush(self.pages_of(range));
        self.told(result, Op::Flush)
    }

    /// Makes durable everything that was written to the file before the call, and the size that reading it takes.
    ///
    /// After an error the state of everything written since the last successful sync is unknown. All of it is
    /// dirty again, and the next sync writes it again. Every handle is told once of each failure, also of those in
    /// the background, by the next call that can tell.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Io`](crate::ErrorKind::Io) when the storage fails,
    /// [`Refused`](crate::ErrorKind::Refused) when the hook refuses a page; the others are made
    /// durable all the same.
    pub fn sync_data(&self) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync(Sync::Data);
        self.told(result, Op::Sync)
    }

    /// As [`sync_data`](Self::sync_data), and makes durable what else the system keeps of the file.
    ///
    /// # Errors
    ///
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_all(&self) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync(Sync::All);
        self.told(result, Op::Sync)
    }

    /// Makes durable what was written before the call to the pages that have any of the bytes in `range`, and the size that reading them
    /// takes. Other dirty pages are not given to the storage. (The storage makes everything durable
    /// that it was given, as by [`flush`](Self::flush).)
    ///
    /// # Errors
    ///
    /// As [`sync_data`](Self::sync_data).
    pub fn sync_range(&self, range: Range<u64>) -> Result<(), Error> {
        self.writes(Op::Sync)?;
        let result = Flusher(&self.mapping).sync_range(self.pages_of(range));
        self.told(result, Op::Sync)
    }

    /// What of the file is not durable: what a checkpoint needs. It takes no lock for long, and waits for no storage.
    pub fn stats(&self) -> FileStats {
        let mapping = &self.mapping;
        let Some(writes) = mapping.writes_if_any() else {
            return FileStats::default();
        };
        // First: a page that becomes clean meanwhile may take its number with it, but not the other way round.
        let oldest_lsn = writes.oldest.get();
        let (nr_dirty, nr_written) = writes.nr_pages(mapping.nr_pages());
        FileStats {
            nr_dirty,
            nr_written,
            oldest_lsn,
        }
    }

    /// `result`. If it tells of a failure that every handle is told of once, this handle counts as told.
    pub(super) fn tells<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Err(error), Some(writes)) = (&result, self.mapping.writes_if_any())
            && let Some(cause) = error.noted_cause()
        {
            // Earlier ones are covered too: the caller has to write everything again.
            writes.errors.mark(cause, &self.seen);
        }
        result
    }

    /// `result` of the call `op`, or an error that this handle was not told of yet.
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
            // The latest failure of the same cause, which stands for earlier ones. Those of others are told by the next call.
            writes.errors.mark(cause, &self.seen);
            return result;
        }
        self.tell_earlier(writes, op)?;
        result
    }

    /// Tells the call `op` of an earlier failure that this handle was not told of yet.
    fn tell_earlier(&self, writes: &Writes, op: Op) -> Result<(), Error> {
        match writes.errors.take(&self.seen) {
            Some(failure) => Err(Error::from_failure(op, failure).with_path(self.path())),
            None => Ok(()),
        }
    }

    /// Makes everything durable, and gives the handle up. A handle for reading does so only if it is the file's last: then it
    /// closes the file, and may be the one to learn that what others have written is lost.
    ///
    /// If the storage, or the hook, fails, it is tried again for a second
    /// ([`Builder::close_timeout`](crate::Builder::close_timeout)). Beside that, closing takes as long as the calls of the
    /// storage and of the hook.
    ///
    /// A handle that is dropped instead does the same, and takes as long, but can report an error only on the program's standard
    /// error; then what was not saved is lost.
    ///
    /// # Errors
    ///
    /// The handle, and the error of [`sync_all`](Self::sync_all), which says how much is not durable. As long as there is a handle
    /// the file stays open and, if it is written to, locked by this process, and nothing is lost: close it again when the storage
    /// works.
    #[allow(clippy::result_large_err)] // The handle as it is; who closes a file does not do so often.
    pub fn close(mut self) -> Result<(), (Self, Error)> {
        let saved = match self.access {
            Handle::Read => Ok(()),
            Handle::Write => self.writes(Op::Sync).and_then(|writes| {
                let earlier = writes.errors.take(&self.seen);
                let saved = Flusher(&self.mapping).save_at_the_end();
                // Those that the tries have met are over, or told now.
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
        // Only the last handle finds something to do here, and a writer's nothing that is left.
        match saved.and_then(|()| self.mapping.close_handle()) {
            Ok(()) => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Reads the file's present size from the storage, adopts it, and returns it. Pages that a change of size has made
    /// wrong are dropped; other pages stay.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when the storage does not tell the size,
    /// [`FileTooLarge`](crate::ErrorKind::FileTooLarge) when the file is now larger than four times its size
    /// at open plus 64 MiB (1 TiB if this cache has it open for writing): then drop all its handles and open it anew.
    pub fn refresh(&self) -> Result<u64, Error> {
        self.mapping.check_home(Op::Invalidate)?;
        refresh(&self.mapping, Op::Invalidate)
    }

    /// A handle for a user that shows the file's pages at addresses, such as a memory space. It may do what this one may.
    pub fn mapped(&self) -> MappedFile<S> {
        MappedFile::new(self.mapping.clone(), self.access)
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

    /// Compares the file that `path` resolves to with this file. A missing file is `Different`, and so is every file if the backend of
    /// this one has no descriptor. Releases no POSIX lock of this process.
    ///
    /// # Errors
    ///
    /// [`AmbiguousFile`](ErrorKind::AmbiguousFile) if `path` resolves to another file with the same device and inode number; errors of
    /// resolving the path.
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
    /// Makes everything durable if this is the last handle. That is done here and not when the mapping is torn down, since pins
    /// may keep the mapping for as long as they like. The share goes after that, and closes the file if it is the last.
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
