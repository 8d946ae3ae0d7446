//! The fill: reading missing pages from the storage.
//!
//! Protocol. Get a permit ([`crate::supply::permits`]). Claim the page's empty slot, so that concurrent misses of one page read
//! it once: the others wait for the claim to end. Allocate a frame, which may evict: only the thread that fills the page does
//! so. Read into the frame, have the hooks on bytes turn it back if there are any ([`crate::base::page_hooks`]), zero the bytes past the end of the file, publish the frame, end the claim. Missing neighbours that the
//! caller wants too are claimed, given frames, and read in the same transfer, as far as that needs no waiting (C3 of
//! [`crate::index::claim`]).
//!
//! With the claim in hand, the search for a frame may wait for transfers of other fills. These have all that they need,
//! and wait for the storage alone.
//!
//! Failure. An error leaves every slot as it was and frees the frames; waiting threads then try
//! themselves. A failed transfer of several pages is repeated for the first page alone, so that an
//! unreadable page does not make its neighbours unreadable.

use std::io;

use pagewell_frame::refcount::RefScheme;
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
use crate::index::publish;
use crate::index::raw;
use crate::mapping::record::Mapping;
use crate::supply::alloc::Allocator;
use crate::supply::counters::Event;
use crate::supply::leaves::{LEAF_FRAMES, Leaves};
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::permits::Permit;
use crate::supply::transfers::{NodeSet, Transfer};

/// The outcome of a fill.
#[derive(Debug)]
#[must_use]
pub(crate) enum Fill<'m, S: RefScheme> {
    /// The page was read; a reference to its frame, and how many bytes of it are the file's.
    Filled(FrameRef<'m, S>, usize),
    /// Another thread has claimed or filled the page: look again.
    Raced,
    /// Another thread is cutting the file, or has just cut it: look again when the cut is over.
    Cut,
}

/// A page that is about to be read.
#[derive(Debug)]
struct Pending<'m, S: RefScheme> {
    // Dropped in this order: the frame is free before a thread that waits for the slot wants one.
    frame: UniqueFrame<'m, S>,
    claim: Claim<'m, S>,
    /// The slot's place: the frame of its leaf, and the position in the leaf.
    place: (u64, u64),
    /// How many bytes of the page the storage has.
    len: usize,
    /// How many bytes of the page the file has: more, if the file is written to and the storage does not have
    /// all of it yet. The additional bytes are zeros.
    readable: usize,
}

impl<'m, S: RefScheme> Pending<'m, S> {
    fn new(frame: UniqueFrame<'m, S>, claim: Claim<'m, S>, place: (u64, u64)) -> Self {
        Self {
            frame,
            claim,
            place,
            len: 0,
            readable: 0,
        }
    }
}

/// Pages that are about to be read in one transfer, and all that the transfer needs.
#[derive(Debug)]
pub(super) struct Batch<'m, S: RefScheme> {
    // Dropped in this order. The transfer comes after the pages: until then their frames may become pages that can be evicted.
    first: Pending<'m, S>,
    more: Vec<Pending<'m, S>>,
    transfer: Option<Transfer<'m>>,
    _permit: Permit<'m>,
    filler: Filler<'m, S>,
    /// The number of the first page.
    page: PageNr,
    /// The size of the file that the storage is asked for.
    size: u64,
}

/// What became of a transfer.
pub(super) enum Landed {
    /// So many pages were read, at least one.
    Pages(usize),
    /// None, since another thread is cutting the file, or has just cut it.
    Cut,
}

/// Turns pages back into what they were before the hooks on bytes changed them.
struct Restorer<'m> {
    hooks: &'m Hooks,
    /// The hook gets a page that nobody else sees: other threads may still be looking at the frame, and find out afterwards that it was none of theirs.
    page: Vec<u8>,
}

impl<'m> Restorer<'m> {
    fn new(hooks: &'m Hooks) -> Self {
        Self {
            hooks,
            page: Vec::new(),
        }
    }

    /// Turns `bytes`, which were read as page number `page`, back; unless they are a hole, which they stay.
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

/// Reads missing pages of a file.
#[derive(Debug)]
pub(crate) struct Filler<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> Clone for Filler<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RefScheme> Copy for Filler<'_, S> {}

impl<'m, S: RefScheme> Filler<'m, S> {
    /// Reads `page`, and missing pages after it up to `want` pages in all.
    pub(crate) fn fill(self, page: PageNr, want: usize) -> Result<Fill<'m, S>, Error> {
        let Some(mut batch) = self.prepare(page, want)? else {
            return Ok(Fill::Raced);
        };
        if batch.is_of_zeros() {
            return Ok(batch.publish_zeros());
        }
        batch.begin();
        let read = match batch.read() {
            Ok(read) => read,
            Err(error) if batch.more.is_empty() => return Err(self.failed(error)),
            Err(_) => {
                batch.more.clear();
                batch.read().map_err(|error| self.failed(error))?
            }
        };
        match batch.landed(read)? {
            Landed::Pages(nr_read) => Ok(batch.publish_first(nr_read)),
            Landed::Cut => Ok(Fill::Cut),
        }
    }

    /// All that a fill of `page` needs, and of missing pages after it up to `want` in all, as far as those take no waiting. None if another
    /// thread was faster.
    fn prepare(self, page: PageNr, want: usize) -> Result<Option<Batch<'m, S>>, Error> {
        let out_of_frames = |reason: OutOfFrames| self.0.out_of_frames(Op::Read, &reason);
        self.check(page)?;

        // 1. A permit; the leaf, the claim, and last a frame. With the claim in hand this waits only
        // for the storage; it waits for the permit with nothing in hand.
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

    /// As [`prepare`](Self::prepare), and waits for nothing. None also if it would have to.
    #[cfg(not(loom))]
    pub(super) fn try_prepare(
        self,
        page: PageNr,
        want: usize,
    ) -> Result<Option<Batch<'m, S>>, Error> {
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

    /// Whether the file has `page`, as far as fills know.
    fn check(self, page: PageNr) -> Result<(), Error> {
        check_may_wait(Op::Read).map_err(|error| error.with_path(self.0.path()))?;
        if self.0.len_of(page, self.readable_size(self.0.fill_size())) == 0
            || page >= self.0.index().capacity()
        {
            return Err(self.0.error(ErrorKind::OutOfRange, Op::Read));
        }
        Ok(())
    }

    /// A batch that begins with `first`, which is `page`.
    fn batch(
        self,
        mut first: Pending<'m, S>,
        mut permit: Permit<'m>,
        page: PageNr,
        want: usize,
    ) -> Result<Batch<'m, S>, Error> {
        // 2. The same for its neighbours, as far as it goes without waiting.
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
        // The size must be the one after the claims: a thread that changes it first stores it, and then
        // waits for the claims of the pages that it makes wrong.
        // ORDERING: SeqCst fence; pairs with the one in `Remover::remove` (store buffering: we claim, and
        // look at the size and the file; they change either, and look for claims; one must see the other).
        fence(Ordering::SeqCst);
        // Loaded once: if the file has grown since, the storage is still asked only for this much.
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

    /// How far the file can be read if its storage has `fill_size` bytes: further, if the file is written to.
    fn readable_size(self, fill_size: u64) -> u64 {
        match self.0.writes_if_any() {
            Some(_) => fill_size.max(self.0.size()),
            None => fill_size,
        }
    }

    /// Whether a cut through this cache has made the file shorter than `fill_size` bytes, or is under way: then a transfer of
    /// that many bytes may fall short although nothing is wrong with the file.
    fn is_being_cut(self, fill_size: u64) -> bool {
        // In this order: when the cut is over, the new size is stored.
        self.0.writes_if_any().is_some_and(Writes::is_cutting) || self.0.fill_size() < fill_size
    }

    /// Claims `page` and finds a frame for it, unless it is cached already or either takes waiting.
    fn try_neighbour(self, page: PageNr) -> Option<Pending<'m, S>> {
        let leaf = self.0.index().leaf(self.0.claims(), page)?;
        let (claim, place) = self.0.claim_empty(leaf, page)?;
        let frame = Allocator(self.0.supply()).try_alloc(self.0.order())?;
        Some(Pending::new(frame, claim, place))
    }

    /// Publishes a page that was read; with `extra` 1, returns a reference for the caller.
    fn publish(self, pending: Pending<'m, S>, extra: u32) -> Option<FrameRef<'m, S>> {
        let Pending {
            frame,
            claim,
            place,
            ..
        } = pending;
        // One reference for the slot, besides the caller's.
        let private = [PageState::CLEAN.bits(), 0];
        let frame = publish::page(frame, place, private, 1 + extra);
        claim.fill(frame);
        (extra == 1).then(|| raw::published(self.0.claims(), frame))
    }

    /// The error of a transfer, which is counted.
    pub(super) fn failed(self, error: std::io::Error) -> Error {
        self.0.supply().counters.add(Event::FailedFill, 1);
        Error::from_io(Op::Read, error).with_path(self.0.path())
    }
}

impl<'m, S: RefScheme> Batch<'m, S> {
    fn all(&self) -> impl Iterator<Item = &Pending<'m, S>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// How many pages it is of.
    #[cfg(not(loom))]
    pub(super) fn nr_pages(&self) -> usize {
        1 + self.more.len()
    }

    /// Whether the storage has no byte of it yet: the file is being written to, and its end is longer here.
    pub(super) fn is_of_zeros(&self) -> bool {
        self.first.len == 0
    }

    /// Counts the transfer, which is about to begin.
    pub(super) fn begin(&mut self) {
        let supply = self.filler.0.supply();
        let frames = self.all().map(|pending| pending.frame.frame());
        let nodes = NodeSet::of_frames(supply.pool(), frames);
        self.transfer = Some(supply.transfers.begin(nodes));
    }

    /// Where the transfer begins in the file.
    pub(super) fn pos(&self) -> u64 {
        self.page * self.filler.0.page_size() as u64
    }

    /// The memory to read into. A storage that wants whole blocks gets whole pages, and so does one that has whole pages: what it reads past the end of the
    /// file is overwritten with zeros.
    pub(super) fn bufs(&self) -> impl Iterator<Item = RacyBytes<'_>> {
        let is_whole = self.filler.0.hooks().is_some() || self.filler.0.backend().alignment() > 1;
        self.all().map(move |pending| match is_whole {
            true => pending.frame.bytes(),
            false => pending.frame.bytes().slice(0, pending.len),
        })
    }

    /// 3. Reads them all, by the storage's call; returns how many bytes.
    fn read(&self) -> std::io::Result<usize> {
        let (backend, pos) = (self.filler.0.backend(), self.pos());
        if self.more.is_empty()
            && let Some(buf) = self.bufs().next()
        {
            // A page alone takes no memory.
            return backend.read_at(&[buf], pos);
        }
        backend.read_at(&self.bufs().collect::<Vec<_>>(), pos)
    }

    /// What has become of it, as `read` bytes were read. Pages are whole from now on: bytes past the end of the file read as zeros, whatever
    /// the frames had before; and as they were before the hooks on bytes changed them.
    ///
    /// # Errors
    ///
    /// [`Truncated`](ErrorKind::Truncated) if there is nothing to read. [`Corrupt`](ErrorKind::Corrupt) if the hooks refuse the first page.
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
                    // Who wants that page finds out.
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

    /// 4. Publishes the first `nr` pages, with a reference to the first one. The rest is given back.
    fn publish_first(self, nr: usize) -> Fill<'m, S> {
        let len = self.first.readable;
        match self.publish(nr, 1) {
            Some(reference) => Fill::Filled(reference, len),
            None => Fill::Raced,
        }
    }

    /// Publishes the first `nr` pages. The rest is given back.
    #[cfg(not(loom))]
    pub(super) fn publish_all(self, nr: usize) {
        drop(self.publish(nr, 0));
    }

    /// Publishes a page of zeros.
    pub(super) fn publish_zeros(self) -> Fill<'m, S> {
        let bytes = self.first.frame.bytes();
        bytes.zero(0, bytes.len());
        self.publish_first(1)
    }

    fn publish(self, nr: usize, extra: u32) -> Option<FrameRef<'m, S>> {
        // Dropped in the opposite order.
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
