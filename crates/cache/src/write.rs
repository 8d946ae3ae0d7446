//! Writing: changing bytes of pages in the cache.
//!
//! # Protocol
//!
//! ```text
//! writer                                        optimistic reader
//! 1 claim the slot (`busy`)                     load the slot: hot
//! 2 freeze the page's frame at a count of 1
//! 3 fence(Release)       (`UniqueFrame::bytes`) copy the bytes
//! 4 write the bytes                             fence(Acquire)
//! 5 unfreeze; end the claim: new version        load the slot again: unchanged?
//! ```
//!
//! A reader that has copied any byte of step 4 sees `busy` or the new version, by the fences; so a read within
//! one page has all of a write or nothing of it.
//!
//! If the frame cannot be frozen, somebody holds a reference: a pin, a referenced read, a transfer to the
//! storage. Then the page moves: the writer copies it to a new frame, writes there, and puts that into the
//! slot. So pins and transfers never see bytes change, and nobody waits for them. That is decided by the count
//! alone, as an eviction is: a pin either has its reference before the freeze, which fails, or its `try_get`
//! fails. No fence between the count and the slot is needed (`docs/adr/0007-*`).
//!
//! New frames are found with no claim in hand: finding one may evict, and wait.
//!
//! # What is not read
//!
//! A page that is missing is read in first, unless all of its bytes that the file has are written, or the
//! storage has none of it.
//!
//! # The end of the file
//!
//! Writes past the end hold the lock of the file's size. Pages are there before the size says so; the page that the old
//! end is in comes last, and the size is stored before its claim ends (`write_growing`). A gap
//! between the old end and the first byte written has no pages: past the end that the storage has
//! ([`crate::storage_size`]), a page that is not cached is zeros.
//!
//! # Locks
//!
//! The lock of the size comes before the writeback lock. With the former in hand nobody is throttled, since that
//! takes the locks of other files; a hook, which runs with the latter in hand, may write to others.
//!
//! Proved by `loom_read_vs_write`, `loom_read_vs_two_moves`, `loom_write_vs_*`, `loom_pin_mut_vs_*`, `loom_create_vs_truncate`,
//! `loom_append_vs_*`, `loom_gap_vs_read`, `loom_*_vs_whole_write`; the litmus tests `optimistic-read-vs-write*`,
//! `optimistic-read-vs-move*`, `pin-vs-rewrite*`, `write-vs-truncate*`, `append-vs-read*`.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, FrameKind, FrameMeta, FrameNr, UniqueFrame};
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::thread::Backoff;

use crate::error::{Error, ErrorKind, Op};
use crate::flush::Sync;
use crate::index::PageNr;
use crate::lookup::Found;
use crate::mapping::{MAX_FILE_BYTES, Mapping, Unclean};
use crate::page_state::PageState;
use crate::slot::State;
use crate::writes::Writes;

/// What is done to one page, from byte `off` of it on.
///
/// The kind of change is a type: to ask for it at run time made writes of a few bytes a sixth slower.
#[derive(Clone, Copy)]
pub(crate) struct Edit<C> {
    off: usize,
    change: C,
    /// The program's log sequence number of it; 0 for none.
    lsn: u64,
}

/// What becomes of the bytes.
pub(crate) trait Change: Copy {
    /// Whether what was there before does not matter.
    const REPLACES: bool;

    /// How many bytes it is about.
    fn len(self) -> usize;

    /// Changes `bytes`.
    fn apply(self, bytes: RacyBytes<'_>);

    /// As [`apply`](Self::apply), to bytes that have to be published again whatever happens: if the program's change
    /// panics, this returns with what.
    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>>;
}

/// They are replaced by these.
impl Change for &[u8] {
    const REPLACES: bool = true;

    #[inline(always)]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn apply(self, bytes: RacyBytes<'_>) {
        bytes.copy_from(0, self);
    }

    #[inline(always)]
    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>> {
        self.apply(bytes);
        None
    }
}

/// They are given to a function of the program, which may look at them, and changes them. It may be called again after it
/// was called on bytes that nobody gets to see.
#[derive(Clone, Copy)]
pub(crate) struct Made<'b> {
    len: usize,
    make: &'b dyn Fn(RacyBytes<'_>),
}

impl Change for Made<'_> {
    const REPLACES: bool = false;

    fn len(self) -> usize {
        self.len
    }

    fn apply(self, bytes: RacyBytes<'_>) {
        (self.make)(bytes);
    }

    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>> {
        let apply = std::panic::AssertUnwindSafe(|| self.apply(bytes));
        std::panic::catch_unwind(apply).err()
    }
}

impl<'b> Edit<&'b [u8]> {
    /// `bytes`, from byte `off` of a page on.
    pub(crate) fn bytes(off: usize, bytes: &'b [u8], lsn: u64) -> Self {
        let change = bytes;
        Self { off, change, lsn }
    }

    /// All that the file has of a page.
    pub(crate) fn whole(bytes: &'b [u8], lsn: u64) -> Self {
        Self::bytes(0, bytes, lsn)
    }
}

impl<'b> Edit<Made<'b>> {
    /// What `make` makes of `range` of a page.
    pub(crate) fn made(range: Range<usize>, make: &'b dyn Fn(RacyBytes<'_>), lsn: u64) -> Self {
        let (off, len) = (range.start, range.len());
        let change = Made { len, make };
        Self { off, change, lsn }
    }
}

impl<C: Change> Edit<C> {
    /// The bytes of a frame that it is about.
    #[inline(always)]
    fn bytes_of<'f, S: RefScheme>(self, frame: &'f UniqueFrame<'_, S>) -> RacyBytes<'f> {
        frame.bytes().slice(self.off, self.change.len())
    }

    #[inline(always)]
    fn apply<S: RefScheme>(self, frame: &UniqueFrame<'_, S>) {
        self.change.apply(self.bytes_of(frame));
    }

    /// Whether the edit is all of a page of which the file has `len` bytes, and does not ask what was there.
    fn covers(self, len: usize) -> bool {
        C::REPLACES && self.off == 0 && self.range().end >= len
    }

    /// What need not be copied to a page's new frame before the edit.
    fn hole(self) -> Range<usize> {
        if C::REPLACES { self.range() } else { 0..0 }
    }

    /// The page's log sequence number after this, given its record.
    fn lsn_after<S: RefScheme>(self, record: &FrameMeta<S>) -> u64 {
        let [_, lsn] = record.private();
        lsn.max(self.lsn)
    }

    #[inline(always)]
    fn range(self) -> Range<usize> {
        self.off..self.off + self.change.len()
    }
}

/// Whether a write may make the file longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// No: what it writes to is within the file, or it is too late.
    Within,
    /// Yes: the lock of the file's size is held, so nobody cuts it.
    Growing,
    /// The same; with the page that the old end is in, this becomes the size.
    GrowingTo(u64),
}

/// What becomes of whole pages that were written when a later one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Kept,
    Dropped,
}

/// What came of writing within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Wrote {
    Done,
    /// Nothing: the file ends before, it was cut meanwhile.
    Cut,
}

/// What came of one attempt to write to a page.
#[must_use]
pub(crate) enum Attempt {
    Done,
    /// The file was cut.
    Cut,
    /// Somebody else was changing the slot: look again.
    Raced,
    /// The page is held, and has to move to a frame that there is none for yet.
    NeedsFrame,
    /// The page is locked; it was in this frame.
    Locked(FrameNr),
    /// The page is of the earlier group, which is to be durable first.
    OfEarlierGroup,
    /// The page is not cached.
    Missing,
}

impl<S: RefScheme> Mapping<S> {
    /// What this mapping has for being written to.
    pub(crate) fn writes(&self, op: Op) -> Result<&Writes, Error> {
        self.writes_if_any()
            .ok_or_else(|| self.error(ErrorKind::ReadOnly, op))
    }

    /// Writes `buf` from byte `pos` of the file on; returns how many bytes were written: all, unless
    /// something failed after the first page.
    pub(crate) fn write_bytes(&self, buf: &[u8], pos: u64, lsn: u64) -> Result<usize, Error> {
        let writes = self.writes(Op::Write)?;
        self.checked_end(pos, buf.len())?;
        let mut done = 0;
        let mut has_made_room = false;
        while done < buf.len() {
            // With no lock in hand.
            self.throttle();
            let (nr, result) = self.write_some(writes, &buf[done..], pos + done as u64, lsn);
            done += nr;
            match result {
                // If nothing was written the file was cut meanwhile: the rest makes it longer again.
                Ok(()) => {}
                Err(error) => {
                    let error = match error {
                        error if has_made_room => error,
                        error => match self.shared().make_room(error) {
                            Ok(()) => {
                                has_made_room = true;
                                continue;
                            }
                            Err(error) => error,
                        },
                    };
                    return if done == 0 { Err(error) } else { Ok(done) };
                }
            }
            has_made_room = false;
        }
        Ok(done)
    }

    /// Writes `buf` from byte `pos` on, or a part of it that begins there; returns how many bytes were written
    /// before something failed.
    fn write_some(
        &self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
    ) -> (usize, Result<(), Error>) {
        if pos + buf.len() as u64 <= self.size() {
            return self.write_pages(writes, buf, pos, lsn, Bound::Within);
        }
        // So many pages at once as are surely there, since nobody is throttled with the lock in hand.
        let off = pos as usize & (self.page_size() - 1);
        let most = self.most_pages() * self.page_size() - off;
        let buf = &buf[..buf.len().min(most)];
        let _resize = match self.lock_size(writes, Op::Write) {
            Ok(lock) => lock,
            Err(error) => return (0, Err(error)),
        };
        let old = self.size();
        if pos > old
            && let Err(error) = self.zero_tail(writes, pos)
        {
            return (0, Err(error));
        }
        self.write_growing(writes, buf, pos, lsn, Part::Kept)
    }

    /// Writes `buf` from byte `pos` on and makes the file longer. The lock of the size is held.
    ///
    /// The page that the old end is in comes last, and the size is stored before its claim ends. Otherwise it could be
    /// given to the storage up to the old end, and be taken for written.
    fn write_growing(
        &self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
        part: Part,
    ) -> (usize, Result<(), Error>) {
        let old = self.size();
        let last_end = old.next_multiple_of(self.page_size() as u64);
        let in_last = last_end.saturating_sub(pos).min(buf.len() as u64) as usize;
        let (nr_past, past) = self.write_pages(
            writes,
            &buf[in_last..],
            pos + in_last as u64,
            lsn,
            Bound::Growing,
        );
        if part == Part::Dropped && past.is_err() {
            self.drop_past_end(old);
            return (0, past);
        }
        // The pages are there; who sees the size sees them.
        let size = old.max(pos + (in_last + nr_past) as u64);
        if in_last == 0 {
            if nr_past != 0 {
                self.store_size(size);
            }
            return (nr_past, past);
        }
        let bound = Bound::GrowingTo(size);
        let (nr, result) = self.write_pages(writes, &buf[..in_last], pos, lsn, bound);
        if nr < in_last {
            self.drop_past_end(old);
            return (nr, result);
        }
        // Where the old end is that of a page, no page has stored it.
        self.store_size(size);
        (in_last + nr_past, past)
    }

    /// Stores the size with the page that the old end is in, whose slot is claimed.
    fn grow(&self, page: PageNr, bound: Bound) {
        if let Bound::GrowingTo(size) = bound
            && page == self.size() >> self.page_shift()
        {
            self.store_size(size);
        }
    }

    /// Writes `buf` at the end of the file; returns where that was.
    pub(crate) fn append_bytes(&self, buf: &[u8], lsn: u64) -> Result<u64, Error> {
        let writes = self.writes(Op::Write)?;
        // With no lock in hand.
        self.throttle();
        self.with_room(|| self.try_append(writes, buf, lsn))
    }

    fn try_append(&self, writes: &Writes, buf: &[u8], lsn: u64) -> Result<u64, Error> {
        let _resize = self.lock_size(writes, Op::Write)?;
        let pos = self.size();
        self.checked_end(pos, buf.len())?;
        // All or nothing: what was placed past the end is dropped.
        let (_, result) = self.write_growing(writes, buf, pos, lsn, Part::Dropped);
        result.map(|()| pos)
    }

    /// Does `what`, and once more if it failed for lack of frames: pages that are not clean may have been in the way,
    /// also where fewer than the limit are not. No lock of any file is held.
    pub(crate) fn with_room<T>(&self, what: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match what() {
            Err(error) => {
                self.shared().make_room(error)?;
                what()
            }
            done => done,
        }
    }

    /// Where a write of `len` bytes at `pos` ends, if the file can have that.
    fn checked_end(&self, pos: u64, len: usize) -> Result<u64, Error> {
        let end = pos.checked_add(len as u64);
        end.filter(|end| *end <= self.reach()).ok_or_else(|| {
            self.error(ErrorKind::FileTooLarge, Op::Write)
                .with_detail(format!(
                    "{len} bytes at {pos}; indexed up to {}, at most {MAX_FILE_BYTES}",
                    self.reach()
                ))
        })
    }

    /// Makes what lies between the end of the file and `pos` zeros in the page that the end is in; what lies in other
    /// pages is zeros to fills. The lock of the size is held.
    fn zero_tail(&self, writes: &Writes, pos: u64) -> Result<(), Error> {
        let old = self.size();
        let page_size = self.page_size() as u64;
        let tail = old % page_size;
        // What a page has past the end of the file means nothing until now. A page that is not cached is read
        // anew, with zeros there.
        let is_cached = self
            .index()
            .look(old / page_size)
            .is_some_and(|seen| seen.slot.state() != State::Empty);
        if tail != 0 && is_cached {
            let zeros = vec![0; (page_size - tail).min(pos - old) as usize];
            let edit = Edit::bytes(tail as usize, &zeros, 0);
            // Nobody can cut the file: the lock of its size is held.
            let _ = self.write_page(writes, old / page_size, edit, Bound::Growing)?;
        }
        Ok(())
    }

    /// Gives the file a new size. What is cut off is gone; what is added is zeros.
    pub(crate) fn resize(&self, new: u64) -> Result<(), Error> {
        let writes = self.writes(Op::Resize)?;
        self.with_room(|| self.try_resize(writes, new))
    }

    fn try_resize(&self, writes: &Writes, new: u64) -> Result<(), Error> {
        if new > self.reach() {
            return Err(self
                .error(ErrorKind::FileTooLarge, Op::Resize)
                .with_detail(format!("{new} bytes; indexed up to {}", self.reach())));
        }
        let _resize = self.lock_size(writes, Op::Resize)?;
        let old = self.size();
        if new > old {
            self.zero_tail(writes, new)
                .map_err(|error| error.with_op(Op::Resize))?;
        }
        // No page is on its way to the storage, where it would make the file longer again.
        let mut storage = self.lock_storage(writes, Op::Resize)?;
        if storage.is_split {
            // The storage is told the size now, so what is to be durable before that is made so now.
            self.settle_earlier(writes, &mut storage)
                .map_err(|error| error.with_op(Op::Resize))?;
        }
        if new < old {
            // Readers must not go beyond an end that has come nearer.
            self.store_size(new);
        }
        // A cut has to be told only of what the storage has; growth is told now, so that it fails now.
        let is_right = storage.is_size_known
            && if new < old {
                self.fill_size() <= new
            } else {
                self.fill_size() == new
            };
        let set = if is_right {
            Ok(())
        } else {
            self.set_storage_size(&mut storage, new)
        };
        // A cut that the storage may have done is one: what it has past the new end is not known any more.
        if set
            .as_ref()
            .is_err_and(|not_set| new > old || !not_set.may_be_set)
        {
            // Nothing was dropped yet.
            self.store_size(old);
        } else {
            self.store_fill_size(self.fill_size().min(new));
            self.store_size(new);
            self.drop_past_end(new);
            // The lock of the size keeps the file from growing again; whoever shows its pages may have to wait.
            drop(storage);
            if new < old {
                self.tell_cut(new);
            }
        }
        set.map_err(|not_set| Error::from_io(Op::Resize, not_set.error).with_path(self.path()))
    }

    /// Drops the cached pages in `pages`, and what was written to them since they were written back.
    pub(crate) fn discard(&self, pages: Range<PageNr>) -> Result<(), Error> {
        let writes = self.writes(Op::Invalidate)?;
        // No page is on its way to the storage, where it would be changed after others have read it.
        let mut storage = self.lock_storage(writes, Op::Invalidate)?;
        // What the storage was given, or may have taken though it failed, is still to be made durable; once the page is
        // gone it could not be given again.
        let was_given = writes.written.next(pages.start, pages.end).is_some();
        if was_given || (storage.may_have_dirty && writes.any_dirty(pages.clone()).is_some()) {
            self.sync_storage(writes, &mut storage, Sync::Data)
                .map_err(|error| self.write_failed(writes, Op::Invalidate, error))?;
        }
        if storage.is_doubtful && writes.any_dirty(pages.clone()).is_some() {
            return Err(self.error(ErrorKind::Io, Op::Invalidate).with_detail(
                "a sync has failed: what the storage has is not known before one succeeds",
            ));
        }
        self.remove(pages.start, pages.end, Unclean::Drop);
        Ok(())
    }

    /// Writes `buf` from byte `pos` on; returns how many bytes were written before the file was found cut, or
    /// something failed.
    fn write_pages(
        &self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
        bound: Bound,
    ) -> (usize, Result<(), Error>) {
        let page_size = self.page_size();
        let mut done = 0;
        while done < buf.len() {
            let now = pos + done as u64;
            let page = now >> self.page_shift();
            let off = now as usize & (page_size - 1);
            let bytes = &buf[done..][..(buf.len() - done).min(page_size - off)];
            if bound == Bound::Within {
                self.throttle();
            }
            match self.write_page(writes, page, Edit::bytes(off, bytes, lsn), bound) {
                Ok(Wrote::Done) => done += bytes.len(),
                Ok(Wrote::Cut) => break,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Writes within one page.
    pub(crate) fn write_page(
        &self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        bound: Bound,
    ) -> Result<Wrote, Error> {
        let mut spare = None;
        let mut backoff = Backoff::new();
        loop {
            match self.try_write_page(writes, page, edit, bound, &mut spare)? {
                Attempt::Done => return Ok(Wrote::Done),
                Attempt::Cut => return Ok(Wrote::Cut),
                Attempt::Raced => self.wait_for_change(page, &mut backoff),
                Attempt::NeedsFrame => spare = Some(self.frame_for_write()?),
                Attempt::Locked(frame) => self.wait_while_locked(page, frame),
                Attempt::OfEarlierGroup => self.settle_groups(writes)?,
                Attempt::Missing => {
                    if self.is_whole(page, edit) {
                        if spare.is_none() {
                            spare = Some(self.frame_for_write()?);
                        }
                        match self.try_create_page(writes, page, edit, bound, &mut spare)? {
                            Attempt::Done => return Ok(Wrote::Done),
                            Attempt::Cut => return Ok(Wrote::Cut),
                            _ => {}
                        }
                    } else {
                        // Read-modify-write. What is read may be gone again when we look; then once more.
                        drop(
                            self.get(page, || 1)
                                .map_err(|error| error.with_op(Op::Write))?,
                        );
                    }
                }
            }
        }
    }

    pub(crate) fn frame_for_write(&self) -> Result<UniqueFrame<'_, S>, Error> {
        let frame = self.shared().alloc(self.order());
        // No claim is held: the place to tear down what an eviction was the last to hold.
        self.shared().bury();
        frame.map_err(|reason| {
            self.error(ErrorKind::OutOfFrames, Op::Write)
                .with_detail(reason.to_string())
        })
    }

    /// Whether nothing of a missing page has to be read to write `edit` to it.
    fn is_whole(&self, page: PageNr, edit: Edit<impl Change>) -> bool {
        let start = page * self.page_size() as u64;
        let of_file = self
            .size()
            .saturating_sub(start)
            .min(self.page_size() as u64) as usize;
        edit.covers(of_file) || start >= self.fill_size()
    }

    pub(crate) fn try_write_page<'m>(
        &'m self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        bound: Bound,
        spare: &mut Option<UniqueFrame<'m, S>>,
    ) -> Result<Attempt, Error> {
        let Some(seen) = self.index().look(page) else {
            return Ok(Attempt::Missing);
        };
        match seen.slot.state() {
            State::Empty => return Ok(Attempt::Missing),
            State::Busy => return Ok(Attempt::Raced),
            // The page's bytes are on their way while the slot and the frame are claimed.
            State::Present(frame) => {
                let bytes = self.shared().pool.bytes(frame, self.page_size());
                let range = edit.range();
                bytes.slice(range.start, range.len()).expect_write();
            }
        }
        let Some(claim) = seen.claim_present(self.shared()) else {
            return Ok(Attempt::Raced);
        };
        let Some(frame) = claim.frame() else {
            return Ok(Attempt::Raced);
        };
        if self.is_cut(page, edit, bound) {
            return Ok(Attempt::Cut);
        }
        let record = self.shared().pool.meta(frame);
        let state = PageState::of(record);
        if state.is_locked() {
            return Ok(Attempt::Locked(frame));
        }
        let group = writes.groups.current();
        if state.is_unclean_of_other(group) {
            return Ok(Attempt::OfEarlierGroup);
        }
        let after = state.dirtied(group);
        let lsn = edit.lsn_after(record);
        if let Some(unique) = claim.freeze() {
            let panicked = edit.change.apply_caught(edit.bytes_of(&unique));
            self.note_state(writes, page, state, after);
            self.grow(page, bound);
            claim.rewrite(unique, after, lsn);
            if let Some(panic) = panicked {
                std::panic::resume_unwind(panic);
            }
            return Ok(Attempt::Done);
        }
        let Some(unique) = spare.take() else {
            return Ok(Attempt::NeedsFrame);
        };
        let old = self.shared().pool.bytes(frame, self.page_size());
        copy_around(old, unique.bytes(), edit.hole());
        edit.apply(&unique);
        self.note_state(writes, page, state, after);
        self.grow(page, bound);
        // Dropping the slot's reference leaves the old frame to who holds it.
        drop(claim.replace(unique, after, lsn));
        Ok(Attempt::Done)
    }

    /// Whether the file ends before the end of an edit that is to be within it. The slot is claimed.
    fn is_cut(&self, page: PageNr, edit: Edit<impl Change>, bound: Bound) -> bool {
        // ORDERING: SeqCst fence; pairs with the one in `Mapping::remove` (store buffering: we claim, and look at the
        // size; whoever cuts the file stores the size, and looks for claims; one must see the other).
        fence(Ordering::SeqCst);
        bound == Bound::Within
            && page * self.page_size() as u64 + edit.range().end as u64 > self.size()
    }

    /// Puts a page that is missing into the cache with the bytes of `edit`, and zeros around them.
    fn try_create_page<'m>(
        &'m self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        bound: Bound,
        spare: &mut Option<UniqueFrame<'m, S>>,
    ) -> Result<Attempt, Error> {
        let leaf = self
            .index()
            .leaf_or_new(self.shared(), self.number(), page)
            .map_err(|reason| {
                self.error(ErrorKind::OutOfFrames, Op::Write)
                    .with_detail(reason.to_string())
            })?;
        let Some((claim, place)) = self.claim_empty(leaf, page) else {
            return Ok(Attempt::Raced);
        };
        if self.is_cut(page, edit, bound) {
            return Ok(Attempt::Cut);
        }
        // Looked at again with the claim in hand: the file may have grown, so that the edit is not all of
        // the page any more. And whoever shrinks the file removes the page after us.
        if !self.is_whole(page, edit) {
            return Ok(Attempt::Raced);
        }
        let Some(unique) = spare.take() else {
            return Ok(Attempt::Raced);
        };
        let bytes = unique.bytes();
        let hole = edit.hole();
        bytes.zero(0, hole.start);
        bytes.zero(hole.end, bytes.len() - hole.end);
        edit.apply(&unique);
        let state = PageState::CLEAN.dirtied(writes.groups.current());
        self.note_state(writes, page, PageState::CLEAN, state);
        let private = [state.bits(), edit.lsn];
        let frame = unique.publish_with(FrameKind::Page, place, private, 1);
        self.grow(page, bound);
        claim.fill(frame);
        Ok(Attempt::Done)
    }

    /// Locks a page of the file for [`replace_locked`](Self::replace_locked): a copy of its bytes, and a frame. The
    /// caller keeps barriers from being made until the page is unlocked.
    pub(crate) fn lock_page(
        &self,
        page: PageNr,
        holder: u64,
    ) -> Result<(Box<[u8]>, UniqueFrame<'_, S>), Error> {
        let writes = self.writes(Op::Pin)?;
        self.throttle();
        let spare = self.frame_for_write()?;
        loop {
            let Found { reference, end } = self.get(page, || 1)?;
            drop(reference);
            let Some(claim) = self.claim_present(page) else {
                continue;
            };
            let Some(frame) = claim.frame() else {
                continue;
            };
            let record = self.shared().pool.meta(frame);
            let state = PageState::of(record);
            if state.is_locked() {
                drop(claim);
                self.wait_while_locked(page, frame);
                continue;
            }
            if state.is_unclean_of_other(writes.groups.current()) {
                drop(claim);
                self.settle_groups(writes)?;
                continue;
            }
            let len = self.len_of(page, self.size().max(end));
            if len == 0 {
                return Err(self.error(ErrorKind::OutOfRange, Op::Pin));
            }
            // The slot's reference keeps the frame while the claim lasts, and nobody else writes to it.
            let mut bytes = vec![0; len].into_boxed_slice();
            self.shared()
                .pool
                .bytes(frame, self.page_size())
                .copy_to(0, &mut bytes);
            state.locked_by(holder).store(record);
            drop(claim);
            return Ok((bytes, spare));
        }
    }

    /// Puts the bytes of `edit` in place of a locked page's, and unlocks it. If the page is not there any more, because the
    /// file was cut or the page discarded, there is nothing to replace.
    pub(crate) fn replace_locked<'m>(
        &'m self,
        page: PageNr,
        holder: u64,
        edit: Edit<&[u8]>,
        spare: Option<UniqueFrame<'m, S>>,
    ) {
        let (Some(writes), Some(claim)) = (self.writes_if_any(), self.claim_present(page)) else {
            return;
        };
        let Some(frame) = claim.frame() else {
            return;
        };
        let record = self.shared().pool.meta(frame);
        let before = PageState::of(record);
        if !before.is_locked_by(holder) {
            // The page was discarded, and is another one now.
            return;
        }
        let after = before.unlocked().dirtied(writes.groups.current());
        let lsn = edit.lsn_after(record);
        if let Some(unique) = claim.freeze() {
            edit.apply(&unique);
            self.note_state(writes, page, before, after);
            claim.rewrite(unique, after, lsn);
            self.shared().waits.wake(record.state());
        } else if let Some(unique) = spare {
            let old = self.shared().pool.bytes(frame, self.page_size());
            copy_around(old, unique.bytes(), edit.hole());
            edit.apply(&unique);
            self.note_state(writes, page, before, after);
            drop(claim.replace(unique, after, lsn));
        }
    }

    /// Waits until the slot of `page`, which was seen changing, may have changed.
    pub(crate) fn wait_for_change(&self, page: PageNr, backoff: &mut Backoff) {
        match self.index().look(page) {
            Some(seen) if seen.slot.is_busy() => seen.wait_while_busy(self.shared()),
            _ => backoff.wait(),
        }
    }

    /// Sleeps while `page` is in `frame`, and locked.
    pub(crate) fn wait_while_locked(&self, page: PageNr, frame: FrameNr) {
        let record = self.shared().pool.meta(frame);
        let in_frame = || {
            let slot = self.index().look(page)?.slot;
            (slot.state() == State::Present(frame)).then(|| slot.bits())
        };
        self.shared().waits.wait_while(record.state(), |state| {
            let before = in_frame();
            // ORDERING: Acquire; whoever unlocks stores, and wakes. And so that the slot is looked at again after it: if
            // that is as it was, the frame was the page's all the time, and its word meant this. Otherwise it may have been
            // something else, or another page, of which nobody wakes us, or whose holder waits for us.
            let is_locked = PageState::from_bits(state.load(Ordering::Acquire)).is_locked();
            is_locked && before.is_some() && in_frame() == before
        });
    }
}

/// Copies a page but for the bytes in `hole`.
fn copy_around(from: RacyBytes<'_>, to: RacyBytes<'_>, hole: Range<usize>) {
    let mut piece = [0; FRAME_BYTES];
    let len = from.len();
    for start in (0..len).step_by(FRAME_BYTES) {
        let end = (start + FRAME_BYTES).min(len);
        if hole.start <= start && end <= hole.end {
            continue;
        }
        let piece = &mut piece[..end - start];
        from.copy_to(start, piece);
        to.copy_from(start, piece);
    }
}
