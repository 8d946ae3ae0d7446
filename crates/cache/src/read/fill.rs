//! Fill: read of missing pages from the backend.
//!
//! Protocol.
//! 1. Acquire a budget reservation ([`crate::supply::permits`]). Claim the page's empty slot, so
//!    that concurrent misses of one page read it once: the other threads wait for the claim to end.
//!    Allocate a frame, which may evict; only the thread that fills the page evicts for it.
//! 2. Claim missing pages after that page, up to the requested number, and allocate their frames,
//!    as far as that needs no waiting (C3 of [`crate::index::claim`]). One transfer reads all.
//! 3. Read into the frames, decode the pages if the file has a codec ([`crate::base::page_hooks`]),
//!    and zero the bytes past the end of the file.
//! 4. Publish the frames and end the claims.
//!
//! While the thread holds the claim, it may wait for a frame, and thus for other fills in flight,
//! which have all their resources and wait only for their backend and codec.
//!
//! Failure. An error restores every slot and frees the frames. Threads that wait for the page fail
//! with the same error ([`crate::mapping::followers`]). A failed transfer of several pages is
//! repeated for the first page alone.

use std::io;

use pagewell_frame::{FrameRef, UniqueFrame};
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::RacyBytes;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::home::check_may_wait;
use crate::base::page::PageNr;
use crate::base::page_hooks::{Hooks, call_page_hook, is_zeros};
use crate::base::page_state::PageState;
use crate::dirty::writes::Writes;
use crate::index::claim::Claim;
use crate::index::raw;
use crate::mapping::record::Mapping;
use crate::supply::alloc::Allocator;
use crate::supply::census::OutOfFrames;
use crate::supply::leaves::{LEAF_FRAMES, Leaves};
use crate::supply::parts::Event;
use crate::supply::permits::Permit;
use crate::supply::transfers::{NodeSet, Transfer};

#[derive(Debug)]
#[must_use]
pub(crate) enum Fill<'m> {
    /// The page was read. Contains the number of its bytes that lie within the file.
    Filled(FrameRef<'m>, usize),
    /// Another thread has claimed or filled the page: look it up again.
    Raced,
    /// The file is being truncated, or just was: look the page up again after the truncation.
    Cut,
}

#[derive(Debug)]
struct Pending<'m> {
    // The frame is freed before the claim ends: a thread that waits for the slot will need a frame.
    frame: UniqueFrame<'m>,
    claim: Claim<'m>,
    /// Frame of the leaf, and position of the slot in it.
    place: (u64, u64),
    /// Number of bytes of the page that the backend has.
    len: usize,
    /// Number of bytes of the page within the file. Those beyond `len` are zeros: the file was
    /// extended, but its backend has not been yet.
    readable: usize,
}

impl<'m> Pending<'m> {
    fn new(frame: UniqueFrame<'m>, claim: Claim<'m>, place: (u64, u64)) -> Self {
        Self {
            frame,
            claim,
            place,
            len: 0,
            readable: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Batch<'m> {
    // The transfer is dropped after the pages, so that a waiting thread can use their frames.
    first: Pending<'m>,
    more: Vec<Pending<'m>>,
    transfer: Option<Transfer<'m>>,
    _permit: Permit<'m>,
    filler: Filler<'m>,
    page: PageNr,
    /// Size of the backend's file at the preparation. The fill uses no byte past it.
    size: u64,
}

pub(super) enum Landed {
    /// The first pages of the batch were read. Contains their number, at least one.
    Pages(usize),
    /// No page was read because of a truncation.
    Cut,
}

struct Restorer<'m> {
    hooks: &'m Hooks,
    /// Private copy for the codec: optimistic readers of the frame's previous page may still load
    /// from the frame, and detect only afterwards that it was reused.
    page: Vec<u8>,
}

impl<'m> Restorer<'m> {
    fn new(hooks: &'m Hooks) -> Self {
        Self {
            hooks,
            page: Vec::new(),
        }
    }

    /// Decodes `bytes` of page `page`. Leaves a hole unchanged.
    fn restore(&mut self, page: PageNr, bytes: RacyBytes<'_>) -> io::Result<()> {
        self.page.resize(bytes.len(), 0);
        bytes.copy_to(0, &mut self.page);
        if is_zeros(&self.page) {
            return call_page_hook(|| self.hooks.0.hole(page));
        }
        call_page_hook(|| self.hooks.0.after_read(page, &mut self.page))?;
        bytes.copy_from(0, &self.page);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Filler<'m>(pub(crate) &'m Mapping);

impl<'m> Filler<'m> {
    pub(crate) fn fill(self, page: PageNr, want: usize) -> Result<Fill<'m>, Error> {
        let Some(mut batch) = self.prepare(page, want)? else {
            return Ok(Fill::Raced);
        };
        if batch.is_of_zeros() {
            return Ok(batch.publish_zeros());
        }
        batch.begin();
        let read = match batch.read() {
            Err(_) if !batch.more.is_empty() => {
                batch.drop_neighbours();
                batch.read()
            }
            read => read,
        };
        let landed = read
            .map_err(|error| self.failed(error))
            .and_then(|read| batch.landed(read));
        match landed {
            Ok(Landed::Pages(nr_read)) => Ok(batch.publish_first(nr_read)),
            Ok(Landed::Cut) => Ok(Fill::Cut),
            Err(error) => {
                batch.drop_neighbours();
                batch.fail(Some(&error));
                Err(error)
            }
        }
    }

    /// Prepares a fill of `page`, and of missing pages after it that need no waiting, at most
    /// `want` pages. The caller holds no claim. Returns `None` if `page` is claimed or filled.
    fn prepare(self, page: PageNr, want: usize) -> Result<Option<Batch<'m>>, Error> {
        let out_of_frames = |reason: OutOfFrames| self.0.out_of_frames(Op::Read, &reason);
        self.check(page)?;

        // 1. The thread waits for the reservation without a claim, and then only for fills.
        let page_frames = self.0.order().frames() as usize;
        let permit = self
            .0
            .supply()
            .in_flight
            .permit(self.0.in_flight(), page_frames + LEAF_FRAMES);
        let leaf = Leaves(self.0.supply())
            .leaf_or_new(self.0.index(), self.0.number(), page)
            .map_err(out_of_frames)?;
        let Some((claim, place)) = self.0.claim_empty(leaf, page) else {
            return Ok(None);
        };
        let frame = Allocator(self.0.supply())
            .alloc(self.0.order())
            .map_err(out_of_frames)?;
        let first = Pending::new(frame, claim, place);
        self.batch(first, permit, page, want).map(Some)
    }

    /// As [`prepare`](Self::prepare), but returns `None` where `prepare` would wait.
    pub(super) fn try_prepare(self, page: PageNr, want: usize) -> Result<Option<Batch<'m>>, Error> {
        self.check(page)?;
        let page_frames = self.0.order().frames() as usize;
        let in_flight = &self.0.supply().in_flight;
        let first = || {
            let permit = in_flight.try_permit(self.0.in_flight(), page_frames + LEAF_FRAMES)?;
            let leaf =
                Leaves(self.0.supply()).try_leaf_or_new(self.0.index(), self.0.number(), page)?;
            let (claim, place) = self.0.claim_empty(leaf, page)?;
            let frame = Allocator(self.0.supply()).try_alloc(self.0.order())?;
            Some((Pending::new(frame, claim, place), permit))
        };
        match first() {
            Some((first, permit)) => self.batch(first, permit, page, want).map(Some),
            None => Ok(None),
        }
    }

    /// Checks that this thread may wait, and that fills can read a byte of `page`.
    fn check(self, page: PageNr) -> Result<(), Error> {
        check_may_wait(Op::Read).map_err(|error| error.with_path(self.0.path()))?;
        if self.0.len_of(page, self.readable_size(self.0.fill_size())) == 0
            || page >= self.0.index().capacity()
        {
            return Err(self.0.error(ErrorKind::OutOfRange, Op::Read));
        }
        Ok(())
    }

    fn batch(
        self,
        mut first: Pending<'m>,
        mut permit: Permit<'m>,
        page: PageNr,
        want: usize,
    ) -> Result<Batch<'m>, Error> {
        // 2. Claim and allocate for neighbours, up to the first that needs waiting.
        let page_frames = self.0.order().frames() as usize;
        let mut more = Vec::new();
        if want > 1 {
            let end = self.0.fill_size().div_ceil(self.0.page_size() as u64);
            let most = want.min(self.0.most_pages()).saturating_sub(1);
            for next in (page + 1..end).take(most) {
                if !permit.try_extend(page_frames) {
                    break;
                }
                let Some(pending) = self.try_neighbour(next) else {
                    break;
                };
                more.push(pending);
            }
        }
        // The size is loaded after the claims.
        // ORDERING: SeqCst fence; pairs with the one in `Remover::remove` (store buffering). This
        // thread claims slots, and then loads the size and reads the file. A thread that changes
        // the size or the file does so, and then loads slots to find, and wait for, claims. At
        // least one of the two sees the other's change.
        fence(Ordering::SeqCst);
        // Only bytes up to this size are used, even if the file has grown since.
        let size = self.0.fill_size();
        let readable = self.readable_size(size);
        for (pending, page) in std::iter::once(&mut first).chain(&mut more).zip(page..) {
            pending.len = self.0.len_of(page, size);
            pending.readable = self.0.len_of(page, readable).max(pending.len);
        }
        more.retain(|pending| pending.len != 0);
        if first.readable == 0 {
            return Err(self.0.error(ErrorKind::OutOfRange, Op::Read));
        }
        Ok(Batch {
            first,
            more,
            transfer: None,
            _permit: permit,
            filler: self,
            page,
            size,
        })
    }

    /// Returns the size up to which the file can be read if its backend has `fill_size` bytes.
    fn readable_size(self, fill_size: u64) -> u64 {
        match self.0.writes_if_any() {
            Some(_) => fill_size.max(self.0.size()),
            None => fill_size,
        }
    }

    /// Whether a truncation is in progress, or has made the file shorter than `fill_size` bytes, so
    /// that a transfer of that many bytes may be short without an error.
    fn is_being_cut(self, fill_size: u64) -> bool {
        // Checked in this order: if the truncation has ended, the second check sees the new size.
        self.0.writes_if_any().is_some_and(Writes::is_cutting) || self.0.fill_size() < fill_size
    }

    /// Returns `None` if the page is not missing, its leaf is not in use, or a step must wait.
    fn try_neighbour(self, page: PageNr) -> Option<Pending<'m>> {
        let leaf = self.0.index().leaf(self.0.claims(), page)?;
        let (claim, place) = self.0.claim_empty(leaf, page)?;
        let frame = Allocator(self.0.supply()).try_alloc(self.0.order())?;
        Some(Pending::new(frame, claim, place))
    }

    /// If `extra` is 1, returns a reference for the caller.
    fn publish(self, pending: Pending<'m>, extra: u32) -> Option<FrameRef<'m>> {
        let Pending {
            frame,
            claim,
            place,
            ..
        } = pending;
        let private = [PageState::CLEAN.bits(), 0];
        let frame = raw::publish_page(frame, place, private, 1 + extra);
        claim.fill(frame);
        (extra == 1).then(|| raw::published(self.0.pool(), frame))
    }

    pub(super) fn failed(self, error: std::io::Error) -> Error {
        self.0.supply().counters.add(Event::FailedFill, 1);
        Error::from_io(Op::Read, error).with_path(self.0.path())
    }
}

impl<'m> Batch<'m> {
    fn all(&self) -> impl Iterator<Item = &Pending<'m>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Reports a failure to the readers that wait for pages of the batch, and then ends the claims
    /// (F1 of [`crate::mapping::followers`]). The caller keeps `error`, which is as for
    /// [`Report::fail`](crate::mapping::followers::Report::fail), until this call returns.
    pub(super) fn fail(self, error: Option<&Error>) {
        let pages = self.page..self.page + self.nr_pages() as u64;
        self.filler.0.followers.fail(pages, error);
        drop(self);
    }

    fn drop_neighbours(&mut self) {
        let pages = self.page + 1..self.page + self.nr_pages() as u64;
        self.filler.0.followers.fail(pages, None);
        self.more.clear();
    }

    pub(super) fn nr_pages(&self) -> usize {
        1 + self.more.len()
    }

    pub(super) fn is_of_zeros(&self) -> bool {
        self.first.len == 0
    }

    pub(super) fn begin(&mut self) {
        let supply = self.filler.0.supply();
        let frames = self.all().map(|pending| pending.frame.frame());
        let nodes = NodeSet::of_frames(supply.pool(), frames);
        self.transfer = Some(supply.transfers.begin(nodes));
    }

    pub(super) fn pos(&self) -> u64 {
        self.page * self.filler.0.page_size() as u64
    }

    /// Returns memory to read into: whole pages if the backend requires alignment, or with a codec.
    pub(super) fn bufs(&self) -> impl Iterator<Item = RacyBytes<'_>> {
        let mapping = self.filler.0;
        let is_whole =
            mapping.hooks().is_some() || mapping.call_backend(|backend| backend.alignment()) > 1;
        self.all().map(move |pending| match is_whole {
            true => pending.frame.bytes(),
            false => pending.frame.bytes().slice(0, pending.len),
        })
    }

    /// 3. Reads all pages by a call of the backend.
    fn read(&self) -> std::io::Result<usize> {
        let (mapping, pos) = (self.filler.0, self.pos());
        if self.more.is_empty()
            && let Some(buf) = self.bufs().next()
        {
            return mapping.call_backend(|backend| backend.read_at(&[buf], pos));
        }
        let bufs: Vec<_> = self.bufs().collect();
        mapping.call_backend(|backend| backend.read_at(&bufs, pos))
    }

    /// Decodes the pages of a transfer of `read` bytes, and zeros their bytes past the end of the
    /// file. Fails with [`Truncated`](ErrorKind::Truncated) if the first page was not read and the
    /// file is not being truncated through this cache, and with [`Corrupt`](ErrorKind::Corrupt) if
    /// the codec refuses the first page.
    pub(super) fn landed(&self, mut read: usize) -> Result<Landed, Error> {
        let mut nr_read = 0;
        let mut restorer = self.filler.0.hooks().map(Restorer::new);
        for (pending, page) in self.all().zip(self.page..) {
            let bytes = pending.frame.bytes();
            let wanted = match &restorer {
                None => pending.len,
                Some(_) => bytes.len(),
            };
            if read < wanted {
                break;
            }
            read -= wanted;
            if let Some(restorer) = &mut restorer
                && let Err(error) = restorer.restore(page, bytes)
            {
                if nr_read != 0 {
                    // A reader of this page gets the error from its own fill.
                    break;
                }
                self.filler.0.supply().counters.add(Event::FailedFill, 1);
                return Err(self
                    .filler
                    .0
                    .error(ErrorKind::Corrupt, Op::Read)
                    .with_page(page)
                    .with_source(error));
            }
            nr_read += 1;
            if pending.len < bytes.len() {
                bytes.zero(pending.len, bytes.len() - pending.len);
            }
        }
        let (mapping, counters) = (self.filler.0, &self.filler.0.supply().counters);
        if nr_read != 0 {
            counters.add(Event::Fill, nr_read as u64);
            return Ok(Landed::Pages(nr_read));
        }
        if self.filler.is_being_cut(self.size) {
            return Ok(Landed::Cut);
        }
        counters.add(Event::FailedFill, 1);
        Err(mapping.error(ErrorKind::Truncated, Op::Read))
    }

    /// 4. Publishes the first `nr` pages, and returns a reference to the first. Frees the rest.
    fn publish_first(self, nr: usize) -> Fill<'m> {
        let len = self.first.readable;
        let first = self.publish(nr, 1);
        first.map_or(Fill::Raced, |reference| Fill::Filled(reference, len))
    }

    pub(super) fn publish_all(self, nr: usize) {
        drop(self.publish(nr, 0));
    }

    pub(super) fn publish_zeros(self) -> Fill<'m> {
        let bytes = self.first.frame.bytes();
        bytes.zero(0, bytes.len());
        self.publish_first(1)
    }

    fn publish(self, nr: usize, extra: u32) -> Option<FrameRef<'m>> {
        // Dropped in reverse order: the pages before the transfer, the reservation last.
        let Self {
            _permit,
            transfer: _transfer,
            mut more,
            first,
            filler,
            ..
        } = self;
        more.truncate(nr.saturating_sub(1));
        let first = filler.publish(first, extra);
        for pending in more {
            drop(filler.publish(pending, 0));
        }
        first
    }
}
