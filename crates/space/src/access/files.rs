//! Accesses of areas that map files.
//!
//! # Without a lock
//!
//! The access uses the file that was noted for the address, by the steps of
//! [`crate::areas::noted`]. Its thread is a *writer at work*, also for a read. If step 5 finds
//! table and entry as in step 3, the area had no copy of the page while the file was read.
//!
//! # With the structure lock
//!
//! The thread retries until it has a result. If it needs a page in the cache, or another resource,
//! it releases the lock and later looks up the areas again ([`Fault`],
//! [`pagewell_cache::MappedFile`]).
//!
//! # The first write to a page of a private area
//!
//! Under the claim of the empty entry, the writer copies the page from the file, at one moment, and
//! changes the copy, which is then an anonymous page. The copied bytes are not older than any
//! earlier read by this thread. [`crate::areas::cut`] handles concurrent truncation.
//!
//! Verified by `loom_shared_write_vs_cut`, `loom_shared_write_vs_unmap`,
//! `loom_slow_shared_write_vs_unmap`, `loom_missing_shared_write_vs_unmap`,
//! `loom_private_write_vs_write_to_the_file`, `loom_private_read_vs_first_write`; by the histories
//! of `pagewell/tests/spaces/files.rs`.

use std::sync::Arc;

use pagewell_cache::{HeldPage, Spare, Tried};
use pagewell_frame::FrameRef;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::read;

use crate::access::optimistic::SHORT_BYTES;
use crate::areas::area::Area;
use crate::areas::cut;
use crate::areas::file::{FileArea, Sharing};
use crate::error::ErrorKind;
use crate::mm::space::Mm;
use crate::supply::view;
use crate::words::claim;

pub(crate) enum Slow {
    Done(usize),
    /// The page is a file's, and not in the cache.
    Missing(Fault),
}

/// Result of an access of a file's page on behalf of an empty entry.
pub(crate) enum Copied<R = ()> {
    Done(R),
    /// The directory or the entry has changed concurrently: the caller retries.
    Again,
    Missing(Fault),
}

/// Page of a file that an access needs in the cache. The caller fills it with no lock held.
pub(crate) struct Fault {
    area: Arc<FileArea>,
    addr: u64,
}

impl Fault {
    pub(crate) fn new(area: &Arc<FileArea>, addr: u64) -> Self {
        Self {
            area: Arc::clone(area),
            addr,
        }
    }

    /// Fills the pages of the `len` bytes at the address, and keeps the first one in the cache.
    pub(crate) fn hold(&self, len: usize) -> Result<HeldPage<'_>, ErrorKind> {
        claim::assert_none_held();
        let of_area = usize::try_from(self.area.range.end - self.addr).unwrap_or(usize::MAX);
        let off = self.area.file().page_size() - self.area.bytes_to_page_end(self.addr);
        let nr_pages = (off + len.min(of_area)).div_ceil(self.area.file().page_size());
        let page = self.area.page_of(self.addr);
        self.area
            .file()
            .hold(page, nr_pages.max(1))
            .map_err(of_file)
    }
}

pub(crate) fn of_file(error: pagewell_cache::Error) -> ErrorKind {
    match error.kind() {
        pagewell_cache::ErrorKind::OutOfRange => ErrorKind::PastEnd,
        pagewell_cache::ErrorKind::OutOfFrames => ErrorKind::OutOfFrames,
        pagewell_cache::ErrorKind::TooManyPins => ErrorKind::TooManyPins,
        pagewell_cache::ErrorKind::ReadOnly => ErrorKind::ReadOnly,
        kind => ErrorKind::File(kind),
    }
}

impl Mm {
    #[inline(always)]
    fn with_noted<R>(&self, addr: u64, work: impl FnOnce(&FileArea) -> Option<R>) -> Option<R> {
        self.files.with(&self.shared.writers, addr, work)
    }

    /// Fills a short `buf` from within a page of the noted file, if it is cached. After `false`,
    /// `buf` may have been written to. On this hot path, each instruction counts.
    #[inline(always)]
    pub(crate) fn read_file_short(&self, addr: u64, buf: &mut [u8]) -> bool {
        if buf.len() > SHORT_BYTES {
            return false;
        }
        let is_read = self.with_noted(addr, move |file| Some(self.read_noted(file, addr, buf)));
        is_read == Some(true)
    }

    /// Fills the part of `buf` that lies in the page of `addr`, as
    /// [`read_file_short`](Self::read_file_short). Returns its length, or `None` if it was not
    /// read.
    #[inline]
    pub(crate) fn read_file(&self, addr: u64, buf: &mut [u8]) -> Option<usize> {
        self.with_noted(addr, move |file| {
            let len = buf.len().min(file.bytes_to_page_end(addr));
            self.read_noted(file, addr, &mut buf[..len]).then_some(len)
        })
    }

    /// Steps 3 to 5. Returns `false` if the read is no hit, or ends past the page.
    #[inline(always)]
    fn read_noted(&self, file: &FileArea, addr: u64, buf: &mut [u8]) -> bool {
        if !file.protection.allows_reads() {
            return false;
        }
        let pos = file.pos_of(addr);
        if file.sharing == Sharing::Shared {
            return file.file().try_read_hit(pos, buf);
        }
        let Some(before) = file.no_copy(&self.tables, addr) else {
            return false;
        };
        // A hit ends with an acquire load, which orders the hit before the loads of step 5.
        file.file().try_read_hit(pos, buf) && file.no_copy(&self.tables, addr) == Some(before)
    }

    /// Reads a page that no entry names: zeros, or bytes of the area's file. The caller holds the
    /// structure lock, and retries after `None`: `is_absent` returned `false` after the read.
    pub(crate) fn read_absent(
        &self,
        area: &Area,
        addr: u64,
        buf: &mut [u8],
        is_absent: impl Fn() -> bool,
    ) -> Result<Option<Slow>, ErrorKind> {
        let Some(file) = &area.file else {
            buf.fill(0);
            return Ok(Some(Slow::Done(buf.len())));
        };
        match file
            .file()
            .try_read(file.pos_of(addr), buf)
            .map_err(of_file)?
        {
            Tried::Done if is_absent() => {
                self.files.note(file, addr, self.tables.directory.len());
                Ok(Some(Slow::Done(buf.len())))
            }
            Tried::Done => Ok(None),
            Tried::PastEnd => Err(ErrorKind::PastEnd),
            Tried::NotNow(_) => Ok(Some(Slow::Missing(Fault::new(file, addr)))),
        }
    }

    /// Copies the page of `addr` from its file to `page`, unless the caller will write all of it
    /// (`len` bytes). The caller holds the structure lock, and has claimed the entry.
    pub(crate) fn copy_from_file(
        &self,
        file: &Arc<FileArea>,
        addr: u64,
        page: RacyBytes<'_>,
        len: usize,
    ) -> Result<Copied, ErrorKind> {
        if cut::is_cut_off(file, addr) {
            return Err(ErrorKind::PastEnd);
        }
        if len == page.len() {
            return Ok(Copied::Done(()));
        }
        match file
            .file()
            .try_copy(file.page_of(addr), page)
            .map_err(of_file)?
        {
            Tried::Done => Ok(Copied::Done(())),
            Tried::PastEnd => Err(ErrorKind::PastEnd),
            Tried::NotNow(_) => Ok(Copied::Missing(Fault::new(file, addr))),
        }
    }

    /// Pins a file's page in the cache, then calls `is_absent`: if that returns `false`, an entry
    /// may name a copy, and the result is [`Copied::Again`]. The caller holds the structure lock.
    pub(crate) fn pin_file(
        &self,
        file: &Arc<FileArea>,
        addr: u64,
        len: usize,
        is_absent: impl Fn() -> bool,
    ) -> Result<Copied<FrameRef<'_>>, ErrorKind> {
        let page_bytes = file.file().page_size();
        let end = page_bytes - file.bytes_to_page_end(addr) + len;
        let page = file.page_of(addr);
        match file.file().try_pin(page, end).map_err(of_file)? {
            (Tried::Done, Some(reference)) if is_absent() => {
                // The file and the space use the frames of one pool, which the space keeps alive.
                let frame = reference.into_raw();
                Ok(Copied::Done(view::pins_reference(
                    self.shared.pool(),
                    frame,
                )))
            }
            (Tried::Done, _) => Ok(Copied::Again),
            (Tried::PastEnd, _) => Err(ErrorKind::PastEnd),
            (Tried::NotNow(_), _) => Ok(Copied::Missing(Fault::new(file, addr))),
        }
    }

    pub(crate) fn file_order_at(&self, addr: u64) -> Option<u32> {
        self.with_noted(addr, |file| Some(u32::from(file.order().get())))
    }

    /// Changes bytes of the file noted for `addr`, unless none is noted or the change would wait.
    #[inline]
    pub(crate) fn edit_file_hit<R>(
        &self,
        addr: u64,
        len: usize,
        lsn: u64,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Option<R>, ErrorKind> {
        let tried = self.with_noted(addr, move |file| {
            if !file.writes_file() || len > file.bytes_to_page_end(addr) {
                return None;
            }
            let edit = (file.pos_of(addr), len, lsn);
            let change = |bytes: RacyBytes<'_>| change(bytes);
            Some(file.file().try_edit(edit, change, &mut Spare::default()))
        });
        match tried {
            None => Ok(None),
            Some(tried) => match tried.map_err(of_file)? {
                (Tried::Done, result) => Ok(result),
                (Tried::PastEnd, _) => Err(ErrorKind::PastEnd),
                (Tried::NotNow(_), _) => Ok(None),
            },
        }
    }

    /// Changes bytes of `file`, unless `addr` is now in another area. The caller holds no lock.
    pub(crate) fn edit_file<R>(
        &self,
        file: &Arc<FileArea>,
        addr: u64,
        (len, lsn): (usize, u64),
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Option<R>, ErrorKind> {
        let pos = file.pos_of(addr);
        let mut spare = Spare::default();
        loop {
            let areas = read(&self.structure);
            let now = areas.area_of(addr).and_then(|area| area.file.as_ref());
            if !now.is_some_and(|now| Arc::ptr_eq(now, file)) {
                return Ok(None);
            }
            let change = |bytes: RacyBytes<'_>| change(bytes);
            let tried = file.file().try_edit((pos, len, lsn), change, &mut spare);
            let wait = match tried.map_err(of_file)? {
                (Tried::Done, result) => {
                    self.files.note(file, addr, self.tables.directory.len());
                    return Ok(result);
                }
                (Tried::PastEnd, _) => return Err(ErrorKind::PastEnd),
                (Tried::NotNow(wait), _) => wait,
            };
            drop(areas);
            claim::assert_none_held();
            file.file().wait(pos, &wait, &mut spare).map_err(of_file)?;
        }
    }
}
