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
//! Writes past the end are in [`crate::growth`], page locks in [`crate::page_lock`].
//!
//! Proved by `loom_read_vs_write`, `loom_read_vs_two_moves`, `loom_write_vs_*`, `loom_*_vs_whole_write`; the litmus tests
//! `optimistic-read-vs-write*`, `optimistic-read-vs-move*`, `pin-vs-rewrite*`.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::edit::{Change, Edit, copy_around};
use crate::error::{Error, ErrorKind, Op};
use crate::flush::Sync;
use crate::growth::Part;
use crate::index::PageNr;
use crate::mapping::{Mapping, Unclean};
use crate::page_state::PageState;
use crate::publish;
use crate::raw;
use crate::slot::State;
use crate::writes::Writes;

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
    pub(crate) fn write_pages(
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
        self.shared().alloc(self.order()).map_err(|reason| {
            self.error(ErrorKind::OutOfFrames, Op::Write)
                .with_detail(reason.to_string())
        })
    }

    /// The frame that was set aside, if a page of this file can be in it: a program may have got it for another file.
    fn take_spare<'m>(&self, spare: &mut Option<UniqueFrame<'m, S>>) -> Option<UniqueFrame<'m, S>> {
        let fits = |spare: &UniqueFrame<'_, S>| {
            std::ptr::eq(spare.pool(), &raw const self.shared().pool)
                && spare.order() == self.order()
        };
        spare.take().filter(fits)
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
                let (view, range) = (self.index().view(), edit.range());
                raw::expect_write(view, (frame, self.page_size()), range.start, range.len());
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
        let Some(unique) = self.take_spare(spare) else {
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
        let Some(unique) = self.take_spare(spare) else {
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
        let frame = publish::page(unique, place, private, 1);
        self.grow(page, bound);
        claim.fill(frame);
        Ok(Attempt::Done)
    }

    /// Waits until the slot of `page`, which was seen changing, may have changed.
    pub(crate) fn wait_for_change(&self, page: PageNr, backoff: &mut Backoff) {
        match self.index().look(page) {
            Some(seen) if seen.slot.is_busy() => seen.wait_while_busy(self.shared()),
            _ => backoff.wait(),
        }
    }
}
