//! Writes within a page.
//!
//! # Protocol
//!
//! ```text
//! writer                                        optimistic reader
//! 1 claim the slot (`busy`)                     load the slot: hot
//! 2 freeze the page's frame at a count of 1
//! 3 fence(Release)       (`UniqueFrame::bytes`) copy the bytes
//! 4 write the bytes                             fence(Acquire)
//! 5 unfreeze; end the claim: new version        reload the slot: unchanged?
//! ```
//!
//! A reader that has copied any byte of step 4 sees `busy` or the new version, by the fences. So a
//! read within one page returns all of a write or nothing of it.
//!
//! If the frame cannot be frozen, a pin, a referenced read, or a transfer to the backend has a
//! reference. Then the page moves: the writer copies it to a new frame, writes there, and stores
//! the new frame in the slot. So pins and transfers never see bytes change, and no writer waits for
//! them. The reference count alone decides, with no fence between it and the slot
//! (`docs/adr/0007-*`): either a pin has its reference before the freeze, which fails, or the pin's
//! `try_get` fails. New frames are allocated with no claim held, as that may evict and wait.
//!
//! # Pages that are not read
//!
//! A missing page is filled first, unless the write covers all bytes of the page that lie within
//! the file, or the backend has no byte of the page.
//!
//! Verified by `loom_read_vs_write`, `loom_read_vs_two_moves`, `loom_write_vs_*`,
//! `loom_*_vs_whole_write`; the litmus tests `optimistic-read-vs-write*`,
//! `optimistic-read-vs-move*`, `pin-vs-rewrite*`.

use pagewell_frame::UniqueFrame;
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::base::edit::{Change, Edit, copy_around};
use crate::base::error::{Error, ErrorKind, Op};
use crate::base::home::check_may_wait;
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::State;
use crate::dirty::writes::Writes;
use crate::index::raw;
use crate::mapping::record::Mapping;
use crate::read::lookup::Lookup;
use crate::read::raw::expect_write;
use crate::supply::alloc::Allocator;
use crate::supply::leaves::Leaves;
use crate::write::lock_wait::{SeenLock, check_not_ours, wait_while_locked};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Not past the end of the file. If a truncation leaves a byte of the write past the end,
    /// nothing is written.
    Within,
    /// Past the end, too. The caller holds the size lock, so the file cannot be truncated.
    Growing,
    /// As `Growing`. The write to the page with the old end also stores this size.
    GrowingTo(u64),
}

/// Whether a write stops at the file's dirty quota ([`crate::dirty::pressure`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// Yes, if the write would make a clean page dirty.
    AtShare,
    /// No: locks are held, or the writer has already waited.
    Not,
}

impl Bound {
    /// A write past the end holds locks and was throttled before.
    const fn throttle(self) -> Throttle {
        match self {
            Self::Within => Throttle::AtShare,
            Self::Growing | Self::GrowingTo(_) => Throttle::Not,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Wrote {
    Done,
    /// The file was truncated, and ends before the end of the write. Nothing was written.
    Cut,
}

#[must_use]
pub(crate) enum Attempt {
    Done,
    Cut,
    Raced,
    /// The page has another reference and must move to a new frame.
    NeedsFrame,
    Locked(SeenLock),
    Throttled,
    Missing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWriter<'m>(pub(crate) &'m Mapping);

impl<'m> PageWriter<'m> {
    /// Writes `buf` from `pos` on. Returns the number of bytes written until a truncation or error.
    pub(crate) fn write_pages(
        self,
        writes: &Writes,
        buf: &[u8],
        pos: u64,
        lsn: u64,
        bound: Bound,
    ) -> (usize, Result<(), Error>) {
        let page_size = self.0.page_size();
        let mut done = 0;
        while done < buf.len() {
            let now = pos + done as u64;
            let page = now >> self.0.page_shift();
            let off = now as usize & (page_size - 1);
            let bytes = &buf[done..][..(buf.len() - done).min(page_size - off)];
            match self.write_page(writes, page, Edit::bytes(off, bytes, lsn), bound) {
                Ok(Wrote::Done) => done += bytes.len(),
                Ok(Wrote::Cut) => break,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Writes `buf` from byte `pos` on if it is a hit: it lies within one page of the file, which
    /// is resident, neither claimed nor locked, and without another reference, and the file is
    /// below its quota or the page is not clean. Otherwise returns `false` and writes nothing.
    /// Compiled separately from [`Self::write_page`], without the code for a move.
    #[inline(always)]
    pub(crate) fn write_hit(self, writes: &Writes, buf: &[u8], pos: u64, lsn: u64) -> bool {
        let page_size = self.0.page_size();
        let off = pos as usize & (page_size - 1);
        if buf.is_empty() || buf.len() > page_size - off {
            return false;
        }
        let edit = Edit::bytes(off, buf, lsn);
        let how = (Bound::Within, Throttle::AtShare);
        let attempt = self.try_write_page(writes, pos >> self.0.page_shift(), edit, how, &mut None);
        matches!(attempt, Ok(Attempt::Done))
    }

    /// Writes within one page. While the page is locked, waits, or, if `bound` permits growth and
    /// the caller thus holds the size lock, returns [`Locked`](ErrorKind::Locked) for
    /// [`wait_after`](crate::write::lock_wait::wait_after). Either way, returns
    /// [`Deadlock`](ErrorKind::Deadlock) if this thread owns the guard.
    pub(crate) fn write_page(
        self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        bound: Bound,
    ) -> Result<Wrote, Error> {
        let mut spare = None;
        let mut backoff = Backoff::new();
        let mut throttle = bound.throttle();
        loop {
            let how = (bound, throttle);
            match self.try_write_page(writes, page, edit, how, &mut spare)? {
                Attempt::Done => return Ok(Wrote::Done),
                Attempt::Cut => return Ok(Wrote::Cut),
                Attempt::Raced => {
                    check_may_wait(Op::Write).map_err(|error| error.with_path(self.0.path()))?;
                    if self.is_whole(page, edit) {
                        self.0.wait_for_change(page, &mut backoff);
                    } else {
                        // The write needs the old bytes, and so the outcome of a fill.
                        Lookup(self.0)
                            .wait_for_change(page, &mut backoff)
                            .map_err(|error| error.with_op(Op::Write))?;
                    }
                }
                Attempt::NeedsFrame => spare = Some(self.frame_for_write()?),
                Attempt::Locked(lock) if bound == Bound::Within => {
                    wait_while_locked(self.0, writes, page, lock)?;
                }
                Attempt::Locked(lock) => {
                    check_not_ours(self.0, writes, page, lock)?;
                    return Err(self.0.error(ErrorKind::Locked, Op::Write).with_page(page));
                }
                Attempt::Throttled => {
                    // Only once, so that the loop ends.
                    self.0.throttle(writes)?;
                    throttle = Throttle::Not;
                }
                Attempt::Missing => {
                    if self.is_whole(page, edit) {
                        if throttle == Throttle::AtShare {
                            self.0.throttle(writes)?;
                            throttle = Throttle::Not;
                        }
                        if spare.is_none() {
                            spare = Some(self.frame_for_write()?);
                        }
                        match self.try_create_page(writes, page, edit, bound, &mut spare)? {
                            Attempt::Done => return Ok(Wrote::Done),
                            Attempt::Cut => return Ok(Wrote::Cut),
                            _ => {}
                        }
                    } else {
                        // A page that is evicted again is filled again.
                        drop(
                            Lookup(self.0)
                                .get(page, || 1)
                                .map_err(|error| error.with_op(Op::Write))?,
                        );
                    }
                }
            }
        }
    }

    pub(crate) fn frame_for_write(self) -> Result<UniqueFrame<'m>, Error> {
        Allocator(self.0.supply())
            .alloc(self.0.order())
            .map_err(|reason| self.0.out_of_frames(Op::Write, &reason))
    }

    /// Takes the spare frame. Frees it and returns `None` if it is of another pool or order.
    fn take_spare(self, spare: &mut Option<UniqueFrame<'m>>) -> Option<UniqueFrame<'m>> {
        let fits = |spare: &UniqueFrame<'_>| {
            std::ptr::eq(spare.pool(), self.0.pool()) && spare.order() == self.0.order()
        };
        spare.take().filter(fits)
    }

    fn is_whole(self, page: PageNr, edit: Edit<impl Change>) -> bool {
        let start = page * self.0.page_size() as u64;
        edit.covers(self.0.len_of(page, self.0.size())) || start >= self.0.fill_size()
    }

    #[inline(always)]
    pub(crate) fn try_write_page(
        self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        (bound, throttle): (Bound, Throttle),
        spare: &mut Option<UniqueFrame<'m>>,
    ) -> Result<Attempt, Error> {
        let Some(seen) = self.0.index().look(page) else {
            return Ok(Attempt::Missing);
        };
        match seen.slot.state() {
            State::Empty => return Ok(Attempt::Missing),
            State::Busy => return Ok(Attempt::Raced),
            // The prefetch overlaps the claim and the freeze.
            State::Present(frame) => {
                let (view, range) = (self.0.index().view(), edit.range());
                let page = (frame, self.0.page_size());
                expect_write(view, page, range.start, range.len());
            }
        }
        let Some(claim) = seen.claim_present(self.0.claims()) else {
            return Ok(Attempt::Raced);
        };
        let Some(frame) = claim.frame() else {
            return Ok(Attempt::Raced);
        };
        if self.is_cut(page, edit, bound) {
            return Ok(Attempt::Cut);
        }
        let record = self.0.pool().meta(frame);
        let state = PageState::of(record);
        if let Some(lock) = SeenLock::of(frame, state) {
            return Ok(Attempt::Locked(lock));
        }
        if throttle == Throttle::AtShare && !state.is_unclean() && self.0.is_at_share(writes) {
            return Ok(Attempt::Throttled);
        }
        let after = state.dirtied();
        let lsn = edit.lsn_after(record);
        if let Some(unique) = claim.freeze() {
            let panicked = edit.change.apply_caught(edit.bytes_of(&unique));
            self.0.note_state(writes, page, state, after);
            writes.oldest.note(edit.lsn);
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
        let old = self.0.pool().bytes(frame, self.0.page_size());
        copy_around(old, unique.bytes(), edit.hole());
        edit.apply(&unique);
        self.0.note_state(writes, page, state, after);
        writes.oldest.note(edit.lsn);
        self.grow(page, bound);
        // The last holder of another reference frees the old frame.
        drop(claim.replace(unique, after, lsn));
        Ok(Attempt::Done)
    }

    /// Whether an edit that must be within the file, of a claimed page, ends past the file's end.
    fn is_cut(self, page: PageNr, edit: Edit<impl Change>, bound: Bound) -> bool {
        // ORDERING: SeqCst fence; pairs with the one in `Remover::remove` (store buffering). This
        // thread claims a slot, then loads the size; a truncating thread stores the size, then
        // loads slots to find claims. At least one of the two sees the other's change.
        fence(Ordering::SeqCst);
        bound == Bound::Within
            && page * self.0.page_size() as u64 + edit.range().end as u64 > self.0.size()
    }

    fn try_create_page(
        self,
        writes: &Writes,
        page: PageNr,
        edit: Edit<impl Change>,
        bound: Bound,
        spare: &mut Option<UniqueFrame<'m>>,
    ) -> Result<Attempt, Error> {
        let leaf = Leaves(self.0.supply())
            .leaf_or_new(self.0.index(), self.0.number(), page)
            .map_err(|reason| self.0.out_of_frames(Op::Write, &reason))?;
        let Some((claim, place)) = self.0.claim_empty(leaf, page) else {
            return Ok(Attempt::Raced);
        };
        if self.is_cut(page, edit, bound) {
            return Ok(Attempt::Cut);
        }
        // Again, under the claim: the file may have grown. A truncation removes the page later.
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
        let state = PageState::CLEAN.dirtied();
        self.0.note_state(writes, page, PageState::CLEAN, state);
        writes.oldest.note(edit.lsn);
        let private = [state.bits(), edit.lsn];
        let frame = raw::publish_page(unique, place, private, 1);
        self.grow(page, bound);
        claim.fill(frame);
        Ok(Attempt::Done)
    }

    /// Stores the new size if `page`, claimed by the caller, contains the old end.
    fn grow(self, page: PageNr, bound: Bound) {
        if let Bound::GrowingTo(size) = bound
            && page == self.0.size() >> self.0.page_shift()
        {
            self.0.store_size(size);
        }
    }
}
