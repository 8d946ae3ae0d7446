//! Writes of any length, at any position, and the end of a file that is written to: writes past
//! it, appends, new sizes.
//!
//! # Protocol
//!
//! A write past the end holds the size lock. Its pages become resident before the size covers them:
//! the page that contains the old end is written last, and the size is stored before the claim of
//! that page ends (`write_growing`). A gap has no pages. A page that is not resident and lies past
//! the end of the backend's file ([`crate::writeback::size`]) reads as zeros.
//!
//! A truncation, with the size lock and the writeback lock held:
//! 1. The backend truncates the file. Until then all threads see the old size, so a truncation that
//!    fails has no effect. A fill whose transfer is short during this step sleeps until the
//!    truncation has ended ([`Writes::cutting`]). If the backend panics, or does not report whether
//!    it has truncated the file, the truncation counts as done.
//! 2. Store the size, then the size for fills: a fill zeros a page past the end of the backend's
//!    file, and a reader of these zeros must see that the file is shorter.
//! 3. Remove the pages past the new end (`Remover::remove`), and call the user that keeps copies.
//!
//! # Locks
//!
//! A thread that waits for a page that is pinned for writing holds no size lock: the owner of the
//! guard may extend the file first. A throttled writer waits for a flusher, and so for the
//! writeback lock and for the callback, which may write to other files. Other threads need the size
//! lock, so its holder is not throttled.
//!
//! Verified by `loom_append_vs_*`, `loom_gap_vs_read`, `loom_create_vs_truncate`,
//! `loom_read_vs_cut`, `loom_read_vs_failed_cut`; the litmus tests `write-vs-truncate*`,
//! `append-vs-read*`.

use std::ops::Range;
use std::{fmt, io};

use crate::base::edit::Edit;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::slot::State;
use crate::dirty::service::Step;
use crate::dirty::writes::Writes;
use crate::mapping::record::Mapping;
use crate::mapping::remove::Remover;
use crate::read::lookup::Lookup;
use crate::write::lock_wait::wait_after;
use crate::write::page::{Bound, PageWriter};
use crate::writeback::size::StorageSize;
use crate::writeback::tail::{Tail, TailKeeper};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Kept,
    Dropped,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grower<'m>(pub(crate) &'m Mapping);

impl Grower<'_> {
    /// Performs a write past the end. The caller holds the size lock. The size is stored before the
    /// claim of the page with the old end is released. Otherwise a flusher could write that page
    /// only up to the old end, and mark it clean.
    pub(crate) fn write_growing(
        self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
        part: Part,
    ) -> (usize, Result<(), Error>) {
        let old = self.0.size();
        let last_end = old.next_multiple_of(self.0.page_size() as u64);
        let in_last = last_end.saturating_sub(pos).min(buf.len() as u64) as usize;
        let (nr_past, past) = PageWriter(self.0).write_pages(
            writes,
            &buf[in_last..],
            pos + in_last as u64,
            lsn,
            Bound::Growing,
        );
        if part == Part::Dropped && past.is_err() {
            Remover(self.0).drop_past_end(old);
            return (0, past);
        }
        // The pages are resident: a thread that sees the size sees them.
        let size = old.max(pos + (in_last + nr_past) as u64);
        if in_last == 0 {
            if nr_past != 0 {
                self.0.store_size(size);
            }
            return (nr_past, past);
        }
        let bound = Bound::GrowingTo(size);
        let (nr, result) = PageWriter(self.0).write_pages(writes, &buf[..in_last], pos, lsn, bound);
        if nr < in_last {
            Remover(self.0).drop_past_end(old);
            return (nr, result);
        }
        // If the old end is the end of a page, the size is not stored yet. A redundant store would
        // take its cache line from readers.
        if self.0.size() != size {
            self.0.store_size(size);
        }
        (in_last + nr_past, past)
    }

    #[inline]
    pub(crate) fn append_bytes(self, buf: &[u8], lsn: u64) -> Result<Range<u64>, Error> {
        let writes = self.0.writes(Op::Write)?;
        // Shorter appends touch at most two pages, which any cache can hold.
        if buf.len() > self.0.page_size() {
            self.check_append(writes, buf.len())?;
        }
        self.when_unlocked(writes, || self.try_append(writes, buf, lsn))
    }

    /// Refuses an append of `len` bytes that can never succeed, before it evicts or writes back a
    /// page. All its pages are dirty at once, so they must be within the dirty limit of one file.
    #[cold]
    fn check_append(self, writes: &Writes, len: usize) -> Result<(), Error> {
        let pos = self.0.size();
        self.checked_end(writes, pos, len)?;
        let most_pages = self.most_dirty() >> self.0.order().get();
        let page_size = self.0.page_size();
        let most = (most_pages * page_size).saturating_sub(pos as usize & (page_size - 1));
        if len <= most {
            return Ok(());
        }
        Err(self
            .0
            .error(ErrorKind::OutOfFrames, Op::Write)
            .with_detail(format!(
                "an append of {len} bytes is atomic; at most {most} bytes of one file may be dirty \
                 at once"
            )))
    }

    fn most_dirty(self) -> usize {
        match self.0.writes_if_any() {
            Some(_) => self.0.shared.pressure.limits.of_one_file(),
            None => 0,
        }
    }

    /// Calls `what`, which acquires the size lock, through [`Mapping::with_room`]. While `what`
    /// finds a page locked, waits for that page with no lock held, and calls `what` again.
    fn when_unlocked<T>(
        self,
        writes: &Writes,
        what: impl Fn() -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            match self.0.with_room(&what) {
                Err(error) => wait_after(self.0, writes, error)?,
                done => return done,
            }
        }
    }

    fn try_append(self, writes: &Writes, buf: &[u8], lsn: u64) -> Result<Range<u64>, Error> {
        let _resize = if self.is_in_dirty_tail(buf.len()) {
            self.0.lock_size(writes, Op::Write)?
        } else {
            self.0.lock_size_within_share(writes, Op::Write)?
        };
        self.settle_end(writes, Op::Write)?;
        let pos = self.0.size();
        let end = self.checked_end(writes, pos, buf.len())?;
        let (_, result) = self.write_growing(writes, buf, pos, lsn, Part::Dropped);
        result.map(|()| pos..end)
    }

    /// Whether an append of `len` bytes would only write to a tail page that is not clean. A hint.
    fn is_in_dirty_tail(self, len: usize) -> bool {
        let (pos, page_size) = (self.0.size(), self.0.page_size());
        let off = pos as usize & (page_size - 1);
        if off == 0 || len > page_size - off {
            return false;
        }
        self.0.seems_unclean(pos >> self.0.page_shift())
    }

    /// Returns the end of a write of `len` bytes from byte `pos` on, or `FileTooLarge`.
    pub(crate) fn checked_end(self, writes: &Writes, pos: u64, len: usize) -> Result<u64, Error> {
        let end = pos.checked_add(len as u64);
        let end = end.filter(|end| *end <= self.0.reach()).ok_or_else(|| {
            let limit = self.0.limit_of_size();
            self.too_large(Op::Write, format_args!("{len} bytes at {pos}: {limit}"))
        })?;
        if end > writes.checked_size() && end > self.0.size() {
            self.check_size(writes, Op::Write, end)?;
        }
        Ok(end)
    }

    fn too_large(self, op: Op, detail: impl fmt::Display) -> Error {
        let error = self.0.error(ErrorKind::FileTooLarge, op);
        error.with_detail(detail.to_string())
    }

    /// Queries the backend whether the file can have `size` bytes, and records the largest accepted
    /// size. Without this, a write past a limit would make later syncs fail, until a truncation.
    #[cold]
    fn check_size(self, writes: &Writes, op: Op, size: u64) -> Result<(), Error> {
        let layout = self.0.layout();
        // In a file stored in whole pages, a size may need up to one page more than a larger size.
        let rest = if layout.is_of_pages() {
            self.0.page_size() as u64 - 1
        } else {
            0
        };
        let check = |size| {
            let stored = layout.pages_end(size).max(size) + rest;
            self.0.call_backend(|backend| backend.check_size(stored))
        };
        let reach = self.0.reach();
        // Near a limit, many appends share one request.
        let ahead = (size + (size / 8).max(1 << 20)).min(reach);
        for more in [reach, ahead] {
            if check(more).is_ok() {
                writes.note_checked_size(more);
                return Ok(());
            }
        }
        match check(size) {
            Ok(()) => {
                writes.note_checked_size(size);
                Ok(())
            }
            Err(error) => Err(match error.kind() {
                io::ErrorKind::FileTooLarge => {
                    let error_of_size = self.too_large(op, format_args!("{size} bytes: {error}"));
                    error_of_size.with_source(error)
                }
                _ => Error::from_io(op, error).with_path(self.0.path()),
            }),
        }
    }

    /// Ensures that the backend's bytes after the end do not become part of the file when it is
    /// extended ([`crate::writeback::tail`]). The caller holds the size lock.
    pub(crate) fn settle_end(self, writes: &Writes, op: Op) -> Result<(), Error> {
        if self.0.hooks().is_none() {
            return Ok(());
        }
        while let Some(at) = writes.loose_end() {
            // The reference keeps the page resident until it is claimed.
            let _page = Lookup(self.0)
                .get(at >> self.0.page_shift(), || 1)
                .map_err(|error| error.with_op(op))?;
            match TailKeeper(self.0).settle(writes, at, op)? {
                Tail::Settled => break,
                Tail::Missing => {}
            }
        }
        Ok(())
    }

    /// Removes bytes that an earlier program left after the end. If this fails, the next call that
    /// extends the file tries again and returns the error.
    pub(crate) fn settle_at_open(self) {
        if let Some(writes) = self.0.writes_if_any()
            && writes.loose_end().is_some()
            && let Ok(_resize) = self.0.lock_size(writes, Op::Open)
            && let Ok(mut storage) = self.0.lock_storage(writes, Op::Open)
            && StorageSize(self.0).settle_cut(&mut storage).is_ok()
        {
            drop(storage);
            let _ = self.settle_end(writes, Op::Open);
        }
    }

    /// Zeros the bytes past the end in the partial tail page of a file with a page codec, as
    /// required by [`Writes::loose_end`]. The caller holds the size lock.
    fn rewrite_end(self, writes: &Writes) -> Result<(), Error> {
        if self.0.hooks().is_none() {
            return Ok(());
        }
        let Some(at) = writes.loose_end() else {
            return Ok(());
        };
        let off = at as usize & (self.0.page_size() - 1);
        let zeros = vec![0; self.0.page_size() - off];
        let edit = Edit::bytes(off, &zeros, 0);
        // The size lock prevents a truncation.
        let page = at >> self.0.page_shift();
        let _ = PageWriter(self.0).write_page(writes, page, edit, Bound::Growing)?;
        Ok(())
    }

    /// Zeros the bytes from the end of the file to `pos` in the partial tail page, if it is
    /// resident. The caller holds the size lock.
    pub(crate) fn zero_tail(self, writes: &Writes, pos: u64) -> Result<(), Error> {
        let old = self.0.size();
        let page_size = self.0.page_size() as u64;
        let tail = old % page_size;
        // If the page is not resident, a later fill zeros its bytes past the end.
        let is_cached = self
            .0
            .index()
            .look(old / page_size)
            .is_some_and(|seen| seen.slot.state() != State::Empty);
        if tail != 0 && is_cached {
            let zeros = vec![0; (page_size - tail).min(pos - old) as usize];
            let edit = Edit::bytes(tail as usize, &zeros, 0);
            let _ = PageWriter(self.0).write_page(writes, old / page_size, edit, Bound::Growing)?;
        }
        Ok(())
    }

    pub(crate) fn resize(self, new: u64) -> Result<(), Error> {
        let writes = self.0.writes(Op::Resize)?;
        self.when_unlocked(writes, || self.try_resize(writes, new))
            .map_err(|error| error.with_op(Op::Resize))
    }

    fn try_resize(self, writes: &Writes, new: u64) -> Result<(), Error> {
        if new > self.0.reach() {
            let limit = self.0.limit_of_size();
            return Err(self.too_large(Op::Resize, format_args!("{new} bytes: {limit}")));
        }
        // In a file stored in whole pages, a smaller size may take more bytes.
        if new > writes.checked_size() && (new > self.0.size() || self.0.layout().is_of_pages()) {
            self.check_size(writes, Op::Resize, new)?;
        }
        let _resize = self.0.lock_size(writes, Op::Resize)?;
        let old = self.0.size();
        if new > old {
            self.settle_end(writes, Op::Resize)?;
            self.zero_tail(writes, new)
                .map_err(|error| error.with_op(Op::Resize))?;
        }
        let is_cut_in_page = self.0.layout().has_part(new) && new < old;
        if is_cut_in_page {
            // If the page, to be rewritten afterwards, cannot be read, nothing is changed.
            drop(
                Lookup(self.0)
                    .get(new >> self.0.page_shift(), || 1)
                    .map_err(|error| error.with_op(Op::Resize))?,
            );
        }
        // With this lock, no write can extend the backend's file after the truncation.
        let mut storage = self.0.lock_storage(writes, Op::Resize)?;
        // A truncation is passed to the backend only if the backend has the bytes; growth is passed
        // on at once, so that this call returns an error of the backend.
        let is_right = storage.is_size_known
            && if new < old {
                self.0.fill_size() <= new
            } else {
                self.0.fill_size() == new
            };
        let set = if is_right {
            Ok(())
        } else {
            StorageSize(self.0).set_storage_size(&mut storage, new, || {
                // Called when the truncation is certain, before fills read removed bytes as zeros.
                if new < old {
                    // The backend keeps the removed bytes until the page is encoded again.
                    if self.0.hooks().is_some() {
                        writes.set_loose_end(is_cut_in_page.then_some(new));
                    }
                    self.0.store_size(new);
                }
            })
        };
        // A truncation that the backend may have done counts as done, since the bytes past the new
        // end are unknown. A change that the backend has not done has no effect.
        let is_changed = match &set {
            Ok(()) => true,
            Err(not_set) => new <= old && not_set.may_be_set,
        };
        if is_changed {
            self.0.store_fill_size(self.0.fill_size().min(new));
            self.0.store_size(new);
            let step = self.0.begin_step(Step::Read);
            Remover(self.0).drop_past_end(new);
            drop(step);
            // The file's user may have to wait, so the writeback lock is released. The size lock
            // still prevents growth.
            drop(storage);
            if new < old {
                self.0.user().tell_cut(new);
            }
            if set.is_ok() && new <= old {
                self.rewrite_end(writes)
                    .map_err(|error| error.with_op(Op::Resize))?;
            }
        }
        set.map_err(|not_set| {
            Error::from_io(Op::Resize, not_set.error_or_unwind()).with_path(self.0.path())
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'m>(pub(crate) &'m Mapping);

impl Writer<'_> {
    /// Writes `buf` from byte `pos` on, up to the first error. Returns the number of written bytes.
    #[inline(always)]
    pub(crate) fn write_bytes(self, buf: &[u8], pos: u64, lsn: u64) -> Result<usize, Error> {
        let writes = self.0.writes(Op::Write)?;
        if PageWriter(self.0).write_hit(writes, buf, pos, lsn) {
            return Ok(buf.len());
        }
        self.write_any(writes, buf, pos, lsn)
    }

    #[inline(never)]
    fn write_any(self, writes: &Writes, buf: &[u8], pos: u64, lsn: u64) -> Result<usize, Error> {
        Grower(self.0).checked_end(writes, pos, buf.len())?;
        let mut done = 0;
        let mut has_made_room = false;
        while done < buf.len() {
            // No lock is held here.
            let (nr, result) = self.write_some(writes, &buf[done..], pos + done as u64, lsn);
            done += nr;
            // If nothing was written, the file was truncated, and the rest extends it again.
            if let Err(error) = result {
                let made_room = wait_after(self.0, writes, error).or_else(|error| {
                    if has_made_room {
                        return Err(error);
                    }
                    has_made_room = true;
                    self.0.make_room(error)
                });
                match made_room {
                    Ok(()) => continue,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => return Ok(done),
                }
            }
            has_made_room = false;
        }
        Ok(done)
    }

    /// Writes a part of `buf` from `pos` on. Returns the number of bytes written before an error.
    fn write_some(
        self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
    ) -> (usize, Result<(), Error>) {
        if pos + buf.len() as u64 <= self.0.size() {
            return PageWriter(self.0).write_pages(writes, buf, pos, lsn, Bound::Within);
        }
        // At most what the cache certainly holds: a writer with the size lock is not throttled.
        let off = pos as usize & (self.0.page_size() - 1);
        let most = self.0.most_pages() * self.0.page_size() - off;
        let buf = &buf[..buf.len().min(most)];
        // Throttle before the lock is held. A write within the file is throttled page by page.
        let _resize = match self.0.lock_size_within_share(writes, Op::Write) {
            Ok(lock) => lock,
            Err(error) => return (0, Err(error)),
        };
        if let Err(error) = Grower(self.0).settle_end(writes, Op::Write) {
            return (0, Err(error));
        }
        let old = self.0.size();
        if pos > old
            && let Err(error) = Grower(self.0).zero_tail(writes, pos)
        {
            return (0, Err(error));
        }
        Grower(self.0).write_growing(writes, buf, pos, lsn, Part::Kept)
    }
}
