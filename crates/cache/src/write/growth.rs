//! The end of a file that is written to: writes past it, appends, new sizes.
//!
//! # Protocol
//!
//! Writes past the end hold the lock of the file's size. Pages are there before the size says so. The page with the old
//! end comes last, and the size is stored before its claim ends (`write_growing`). A gap
//! between the old end and the first byte written has no pages: past the end that the storage has
//! ([`crate::writeback::size`]), a page that is not cached is zeros.
//!
//! A cut, with the lock of the size and the writeback lock held:
//! 1. The storage cuts the file. Until then everybody sees the old size, so a cut that fails has no effect. A fill whose
//!    transfer falls short meanwhile sleeps until the cut is over ([`Writes::cutting`]). A storage that panics, or does not tell
//!    whether it has cut the file, is taken to have cut it.
//! 2. Store the size, then the size that fills go by. In this order: a fill that finds a page past the end of the storage makes it
//!    zeros, and a reader of these zeros must see that the file is shorter.
//! 3. Take out the pages past the new end (`Remover::remove`), and tell the file's user, which keeps copies.
//!
//! # Locks
//!
//! The lock of the size comes before the writeback lock. A page that is pinned to be changed is waited for without it: the thread
//! that has the guard may make the file longer first. No writer is throttled with the lock of the size in hand, since a flusher
//! takes the writeback lock to clean the file, and others want the lock of the size. A hook, which runs with the writeback lock
//! in hand, may write to other files.
//!
//! Proved by `loom_append_vs_*`, `loom_gap_vs_read`, `loom_create_vs_truncate`, `loom_read_vs_cut`, `loom_read_vs_failed_cut`;
//! the litmus tests `write-vs-truncate*`, `append-vs-read*`.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;

use crate::base::edit::Edit;
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::MAX_FILE_BYTES;
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

/// The treatment of whole pages that were written when a later one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Kept,
    Dropped,
}

/// Makes a file longer, or gives it a new size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grower<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> Grower<'_, S> {
    /// Writes `buf` from byte `pos` on and makes the file longer. The lock of the size is held.
    ///
    /// The page with the old end comes last, and the size is stored before its claim ends. Otherwise the page could be
    /// given to the storage up to the old end, and be taken for written.
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
        // The pages are there: a thread that sees the size sees them.
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
        // If the old end is the end of a page, no page has stored the size. Otherwise readers keep the line that they have it in.
        if self.0.size() != size {
            self.0.store_size(size);
        }
        (in_last + nr_past, past)
    }

    /// Writes `buf` at the end of the file; returns where it is.
    pub(crate) fn append_bytes(self, buf: &[u8], lsn: u64) -> Result<Range<u64>, Error> {
        let writes = self.0.writes(Op::Write)?;
        // One of a page touches two pages at the most, and a cache has room for more.
        if buf.len() > self.0.page_size() {
            self.check_append(buf.len())?;
        }
        self.when_unlocked(writes, || self.try_append(writes, buf, lsn))
    }

    /// Refuses an append of `len` bytes that can never be done, before anything is evicted or written back for it. Its pages are
    /// past the end of the file until all of them are there, and dirty; so none of them can be given to the storage
    /// before, and all have to be within what one file may have dirty.
    #[cold]
    fn check_append(self, len: usize) -> Result<(), Error> {
        let pos = self.0.size();
        self.checked_end(pos, len)?;
        let most_pages = self.most_dirty() >> self.0.order().get();
        let page_size = self.0.page_size();
        // The page with the end counts as one.
        let most = (most_pages * page_size).saturating_sub(pos as usize & (page_size - 1));
        if len <= most {
            return Ok(());
        }
        Err(self
            .0
            .error(ErrorKind::OutOfFrames, Op::Write)
            .with_detail(format!(
                "an append of {len} bytes, all or nothing; {most} bytes of one file may be dirty at once here"
            )))
    }

    /// How many frames the file may have dirty, if no other has any.
    fn most_dirty(self) -> usize {
        match self.0.writes_if_any() {
            Some(_) => self.0.shared().pressure.limits.of_one_file(),
            None => 0,
        }
    }

    /// Does `what`, which takes the lock of the size, with room; and repeats it when a page was locked that it has to write to.
    /// That is waited for here, with no lock held.
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
        let end = self.checked_end(pos, buf.len())?;
        // All or nothing: pages placed past the end are dropped.
        let (_, result) = self.write_growing(writes, buf, pos, lsn, Part::Dropped);
        result.map(|()| pos..end)
    }

    /// Whether an append of `len` bytes would only write to the page with the end of the file, which is not clean: a hint.
    fn is_in_dirty_tail(self, len: usize) -> bool {
        let (pos, page_size) = (self.0.size(), self.0.page_size());
        let off = pos as usize & (page_size - 1);
        if off == 0 || len > page_size - off {
            return false;
        }
        self.0.seems_unclean(pos >> self.0.page_shift())
    }

    /// The end of a write of `len` bytes at `pos`, if the file can have that.
    pub(crate) fn checked_end(self, pos: u64, len: usize) -> Result<u64, Error> {
        let end = pos.checked_add(len as u64);
        end.filter(|end| *end <= self.0.reach()).ok_or_else(|| {
            self.0
                .error(ErrorKind::FileTooLarge, Op::Write)
                .with_detail(format!(
                    "{len} bytes at {pos}; indexed up to {}, at most {MAX_FILE_BYTES}",
                    self.0.reach()
                ))
        })
    }

    /// Before the file becomes longer: nothing that the storage has after its end may become a part of it ([`crate::writeback::tail`]). The lock of the size is held.
    pub(crate) fn settle_end(self, writes: &Writes, op: Op) -> Result<(), Error> {
        if self.0.hooks().is_none() {
            return Ok(());
        }
        while let Some(at) = writes.loose_end() {
            // Kept, so that it is not evicted at once.
            let _page = Lookup(self.0)
                .get(at >> self.0.page_shift(), || 1)
                .map_err(|error| error.with_op(op))?;
            match TailKeeper(self.0).settle(writes, at, op)? {
                Tail::Settled => break,
                // It was invalidated.
                Tail::Missing => {}
            }
        }
        Ok(())
    }

    /// As [`settle_end`](Self::settle_end), for who opens the file: what an earlier program has left after the end must not be there when this one makes it longer. If
    /// it fails, whoever makes the file longer tries again, and is told.
    #[cfg(not(loom))]
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

    /// After a cut: the page with the end goes out again, with zeros after it. The lock of the size is held.
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
        // The file cannot be cut: the lock of its size is held.
        let page = at >> self.0.page_shift();
        let _ = PageWriter(self.0).write_page(writes, page, edit, Bound::Growing)?;
        Ok(())
    }

    /// Zeros the bytes between the end of the file and `pos` in the page with the end; fills see the bytes in other
    /// pages as zeros. The lock of the size is held.
    pub(crate) fn zero_tail(self, writes: &Writes, pos: u64) -> Result<(), Error> {
        let old = self.0.size();
        let page_size = self.0.page_size() as u64;
        let tail = old % page_size;
        // Until now a page's bytes past the end of the file mean nothing. A page that is not cached is read
        // anew, with zeros there.
        let is_cached = self
            .0
            .index()
            .look(old / page_size)
            .is_some_and(|seen| seen.slot.state() != State::Empty);
        if tail != 0 && is_cached {
            let zeros = vec![0; (page_size - tail).min(pos - old) as usize];
            let edit = Edit::bytes(tail as usize, &zeros, 0);
            // The file cannot be cut: the lock of its size is held.
            let _ = PageWriter(self.0).write_page(writes, old / page_size, edit, Bound::Growing)?;
        }
        Ok(())
    }

    /// Gives the file a new size. Bytes past it are gone; new bytes are zeros.
    pub(crate) fn resize(self, new: u64) -> Result<(), Error> {
        let writes = self.0.writes(Op::Resize)?;
        self.when_unlocked(writes, || self.try_resize(writes, new))
            .map_err(|error| error.with_op(Op::Resize))
    }

    fn try_resize(self, writes: &Writes, new: u64) -> Result<(), Error> {
        if new > self.0.reach() {
            return Err(self
                .0
                .error(ErrorKind::FileTooLarge, Op::Resize)
                .with_detail(format!("{new} bytes; indexed up to {}", self.0.reach())));
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
            // It goes out again after the cut. What cannot be read cannot be cut.
            drop(
                Lookup(self.0)
                    .get(new >> self.0.page_shift(), || 1)
                    .map_err(|error| error.with_op(Op::Resize))?,
            );
        }
        // With this lock no page is on its way to the storage, where it would make the file longer again.
        let mut storage = self.0.lock_storage(writes, Op::Resize)?;
        // A cut is told only if the storage has the bytes; growth is told now, so that it fails now.
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
                // Shown once the cut is certain, and before fills take the bytes cut off for zeros.
                if new < old {
                    // What is cut off of the last page is in the storage until it is written again.
                    if self.0.hooks().is_some() {
                        writes.set_loose_end(is_cut_in_page.then_some(new));
                    }
                    self.0.store_size(new);
                }
            })
        };
        // A cut that the storage may have done counts as done: its bytes past the new end are unknown now. A change that it
        // has not done counts as none: nothing was dropped, and nobody has seen another size.
        let is_changed = match &set {
            Ok(()) => true,
            Err(not_set) => new <= old && not_set.may_be_set,
        };
        if is_changed {
            self.0.store_fill_size(self.0.fill_size().min(new));
            self.0.store_size(new);
            // A page that is being read in is waited for.
            let step = writes
                .service
                .begin_step(&self.0.shared().pressure, Step::Read);
            Remover(self.0).drop_past_end(new);
            drop(step);
            // The lock of the size keeps the file from growing again; the file's user may have to wait.
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
