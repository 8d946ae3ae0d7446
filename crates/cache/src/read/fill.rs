//! The fill: reading missing pages from the storage.
//!
//! Protocol. Charge the page to the file's group ([`crate::supply::groups`]), and get a permit ([`crate::supply::permits`]). Claim the page's empty slot, so that concurrent misses of one page read
//! it once: the others wait for the claim to end. Allocate a frame, which may evict: only the thread that fills the page does
//! so. Read into the frame, zero the bytes past the end of the file, publish the frame, end the claim. Missing neighbours that the
//! caller wants too are claimed, given frames, and read in the same transfer, as far as that needs no waiting (C3 of
//! [`crate::index::claim`]).
//!
//! With the claim in hand, the search for a frame may wait for transfers of other fills. These have all that they need,
//! and wait for the storage alone.
//!
//! Failure. An error leaves every slot as it was and frees the frames; waiting threads then try
//! themselves. A failed transfer of several pages is repeated for the first page alone, so that an
//! unreadable page does not make its neighbours unreadable.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameRef, UniqueFrame};
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::RacyBytes;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::dirty::writes::Writes;
use crate::index::claim::Claim;
use crate::index::publish;
use crate::index::raw;
use crate::mapping::record::Mapping;
use crate::supply::alloc::Allocator;
use crate::supply::counters::Event;
use crate::supply::groups::{Charge, Charger};
use crate::supply::leaves::{LEAF_FRAMES, Leaves};
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::transfers::NodeSet;

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

    /// The bytes that the storage has.
    fn buf(&self) -> RacyBytes<'_> {
        self.frame.bytes().slice(0, self.len)
    }
}

/// Reads missing pages of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filler<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<'m, S: RefScheme> Filler<'m, S> {
    /// Reads `page`, and missing pages after it up to `want` pages in all.
    pub(crate) fn fill(self, page: PageNr, want: usize) -> Result<Fill<'m, S>, Error> {
        let out_of_frames = |reason: OutOfFrames| self.0.out_of_frames(Op::Read, &reason);
        if self.0.len_of(page, self.readable_size(self.0.fill_size())) == 0
            || page >= self.0.index().capacity()
        {
            return Err(self.0.error(ErrorKind::OutOfRange, Op::Read));
        }

        // 1. A charge, if the file is in a group, and a permit; the leaf, the claim, and last a frame. With the claim in hand this waits
        // only for the storage; it waits for the charge with nothing in hand, and for the permit with the charge.
        let page_frames = self.0.order().frames() as usize;
        let charger = Charger(self.0.supply());
        // And a leaf.
        let mut charge = charger
            .charge(self.0.group().map(|group| &**group), page_frames + 1)
            .map_err(out_of_frames)?;
        let mut permit = self
            .0
            .supply()
            .in_flight
            .permit(self.0.in_flight(), page_frames + LEAF_FRAMES);
        let leaf = Leaves(self.0.supply())
            .leaf_or_new(self.0.index(), self.0.number(), page, &mut charge)
            .map_err(out_of_frames)?;
        let Some((claim, place)) = self.0.claim_empty(leaf, page) else {
            return Ok(Fill::Raced);
        };
        let frame = Allocator(self.0.supply())
            .alloc(self.0.order())
            .map_err(out_of_frames)?;
        // Dropped after the pages: until then their frames may become pages that can be evicted.
        let _transfer;
        let mut first = Pending::new(frame, claim, place);

        // 2. The same for its neighbours, as far as it goes without waiting.
        let mut more = Vec::new();
        if want > 1 {
            let end = self.0.fill_size().div_ceil(self.0.page_size() as u64);
            let most = want.min(self.0.most_pages()).saturating_sub(1);
            for next in (page + 1..end).take(most) {
                if !permit.try_extend(page_frames) || !charger.try_extend(&mut charge, page_frames)
                {
                    break;
                }
                let Some(pending) = self.try_prepare(next) else {
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
        match (first.len, first.readable) {
            (0, 0) => return Err(self.0.error(ErrorKind::OutOfRange, Op::Read)),
            // The storage has no byte of it yet.
            (0, _) => return Ok(self.publish_zeros(first, &mut charge)),
            _ => {}
        }

        // 3. Read them all; if that fails, the first.
        let supply = self.0.supply();
        let frames = std::iter::once(&first).chain(&more);
        let frames = frames.map(|pending| pending.frame.frame());
        _transfer = supply
            .transfers
            .begin(NodeSet::of_frames(supply.pool(), frames));
        let nr_read = match self.transfer(&first, &more, page) {
            Ok(nr_read) => nr_read,
            Err(error) if more.is_empty() => return Err(self.failed(error)),
            Err(_) => {
                more.clear();
                self.transfer(&first, &more, page)
                    .map_err(|error| self.failed(error))?
            }
        };
        if nr_read == 0 {
            if self.is_being_cut(size) {
                return Ok(Fill::Cut);
            }
            self.0.supply().counters.add(Event::FailedFill, 1);
            return Err(self.0.error(ErrorKind::Truncated, Op::Read));
        }

        // 4. Publish the pages that were read. The rest of them is given back.
        more.truncate(nr_read - 1);
        self.0.supply().counters.add(Event::Fill, nr_read as u64);
        let len = first.readable;
        let first = self.publish(first, 1, &mut charge);
        for pending in more {
            drop(self.publish(pending, 0, &mut charge));
        }
        match first {
            Some(reference) => Ok(Fill::Filled(reference, len)),
            None => Ok(Fill::Raced),
        }
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

    /// Publishes a page of zeros.
    fn publish_zeros(self, pending: Pending<'m, S>, charge: &mut Charge<'_>) -> Fill<'m, S> {
        let bytes = pending.frame.bytes();
        bytes.zero(0, bytes.len());
        let readable = pending.readable;
        match self.publish(pending, 1, charge) {
            Some(reference) => Fill::Filled(reference, readable),
            None => Fill::Raced,
        }
    }

    /// Claims `page` and finds a frame for it, unless it is cached already or either takes waiting.
    fn try_prepare(self, page: PageNr) -> Option<Pending<'m, S>> {
        let leaf = self.0.index().leaf(self.0.claims(), page)?;
        let (claim, place) = self.0.claim_empty(leaf, page)?;
        let frame = Allocator(self.0.supply()).try_alloc(self.0.order())?;
        Some(Pending::new(frame, claim, place))
    }

    /// Reads `first`, which is page number `page`, and its neighbours `more`; returns how many it read
    /// whole. Fewer than all means that the file has become shorter.
    fn transfer(
        self,
        first: &Pending<'_, S>,
        more: &[Pending<'_, S>],
        page: PageNr,
    ) -> std::io::Result<usize> {
        let (backend, pos) = (self.0.backend(), page * self.0.page_size() as u64);
        let all = || std::iter::once(first).chain(more);
        let mut read = match more {
            // A page alone takes no memory.
            [] => backend.read_at(&[first.buf()], pos)?,
            _ => backend.read_at(&all().map(Pending::buf).collect::<Vec<_>>(), pos)?,
        };
        let mut nr_read = 0;
        for pending in all() {
            if read < pending.len {
                break;
            }
            read -= pending.len;
            nr_read += 1;
            // Bytes past the end of the file read as zeros, whatever the frame had before.
            let bytes = pending.frame.bytes();
            if pending.len < bytes.len() {
                bytes.zero(pending.len, bytes.len() - pending.len);
            }
        }
        Ok(nr_read)
    }

    /// Publishes a page that was read; with `extra` 1, returns a reference for the caller.
    fn publish(
        self,
        pending: Pending<'m, S>,
        extra: u32,
        charge: &mut Charge<'_>,
    ) -> Option<FrameRef<'m, S>> {
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
        charge.spend(self.0.order().frames() as usize);
        Charger(self.0.supply()).note_arrival(charge, frame);
        (extra == 1).then(|| raw::published(self.0.claims(), frame))
    }

    fn failed(self, error: std::io::Error) -> Error {
        self.0.supply().counters.add(Event::FailedFill, 1);
        Error::from_io(Op::Read, error).with_path(self.0.path())
    }
}
