//! The fill: reading missing pages from the storage.
//!
//! Protocol. Get a permit ([`crate::in_flight`]) and allocate a frame. Claim the page's empty slot, so that
//! concurrent misses of one page read it once: the others wait for the claim to end. Read into the frame,
//! cut off what is past the end of the file, publish the frame, end the claim. Missing neighbours that the
//! caller wants too are claimed and read in the same transfer, as far as that needs no waiting (C3 of
//! [`crate::claim`]).
//!
//! Failure. An error leaves every slot as it was and frees the frames; those who waited try for
//! themselves. A transfer of several pages that fails is repeated for the first page alone, so that an
//! unreadable page does not make its neighbours unreadable.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, FrameRef, UniqueFrame};
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::bytes::RacyBytes;

use crate::claim::Claim;
use crate::error::{Error, ErrorKind, Op};
use crate::index::{Leaf, PageNr};
use crate::mapping::Mapping;
use crate::page_state::PageState;
use crate::publish;
use crate::raw;
use crate::reclaim::OutOfFrames;
use crate::shared::Event;
use crate::slot::{Slot, State};
use crate::transfers::NodeSet;
use crate::writes::Writes;

/// The most bytes that one transfer is asked for.
const MOST_BYTES: usize = 1 << 20;

/// A fill may have to make a leaf.
const LEAF_FRAMES: usize = 1;

/// What came of a fill.
#[derive(Debug)]
#[must_use]
pub(crate) enum Fill<'m, S: RefScheme> {
    /// The page was read; a reference to its frame, and how many bytes of it are the file's.
    Filled(FrameRef<'m, S>, usize),
    /// Someone else has claimed or filled the page: look again.
    Raced,
    /// Someone is cutting the file, or has just done it: look again when that is over.
    Cut,
}

/// A page that is about to be read.
#[derive(Debug)]
struct Pending<'m, S: RefScheme> {
    // Dropped in this order: the frame is free before somebody who waits for the slot wants one.
    frame: UniqueFrame<'m, S>,
    claim: Claim<'m, S>,
    /// The frame of the leaf, and the position in it, that the slot is at.
    place: (u64, u64),
    /// How many bytes of the page the storage has.
    len: usize,
    /// How many bytes of the page the file has: more, if the file is written to and the storage does not know
    /// of all of it yet. The others are zeros.
    readable: usize,
}

impl<S: RefScheme> Mapping<S> {
    /// Reads `page`, and missing pages after it up to `want` pages in all.
    pub(crate) fn fill(&self, page: PageNr, want: usize) -> Result<Fill<'_, S>, Error> {
        let out_of_frames = |reason: OutOfFrames| {
            self.error(ErrorKind::OutOfFrames, Op::Read)
                .with_detail(reason.to_string())
        };
        if self.len_of(page, self.readable_size(self.fill_size())) == 0
            || page >= self.index().capacity()
        {
            return Err(self.error(ErrorKind::OutOfRange, Op::Read));
        }

        // 1. A permit, a frame, the leaf, and last the claim: nothing is waited for with the claim in hand
        // but the storage, and for permits with nothing in hand.
        let page_frames = self.order().frames() as usize;
        let mut permit = self.shared().in_flight.permit(page_frames + LEAF_FRAMES);
        let frame = self.shared().alloc(self.order()).map_err(out_of_frames)?;
        let leaf = self
            .index()
            .leaf_or_new(self.shared(), self.number(), page)
            .map_err(out_of_frames)?;
        let Some((claim, place)) = self.claim_empty(leaf, page) else {
            return Ok(Fill::Raced);
        };
        let mut batch = vec![Pending {
            frame,
            claim,
            place,
            len: 0,
            readable: 0,
        }];

        // 2. The same for its neighbours, as far as it goes without waiting.
        let end = self.fill_size().div_ceil(self.page_size() as u64);
        let more = want.min(self.most_pages()).saturating_sub(1);
        for next in (page + 1..end).take(more) {
            if !permit.try_extend(page_frames) {
                break;
            }
            let Some(pending) = self.try_prepare(next) else {
                break;
            };
            batch.push(pending);
        }
        // The size is to be that of after the claims: whoever changes it stores it first, and then
        // waits for the claims of the pages that it makes wrong.
        // ORDERING: SeqCst fence; pairs with the one in `Mapping::remove` (store buffering: we claim, and
        // look at the size and the file; they change either, and look for claims; one must see the other).
        fence(Ordering::SeqCst);
        // Loaded once: a file that has grown since is one whose storage has not been asked for so much.
        let size = self.fill_size();
        let readable = self.readable_size(size);
        for (pending, page) in batch.iter_mut().zip(page..) {
            pending.len = self.len_of(page, size);
            pending.readable = self.len_of(page, readable).max(pending.len);
        }
        if let [first, ..] = &*batch
            && first.len == 0
            && first.readable != 0
        {
            // The storage has nothing of it yet.
            batch.truncate(1);
            return Ok(self.publish_zeros(batch.pop()));
        }
        batch.retain(|pending| pending.len != 0);
        if batch.is_empty() {
            return Err(self.error(ErrorKind::OutOfRange, Op::Read));
        }

        // 3. Read them all, or failing that the first.
        let nr_read = match self.transfer(&batch, page) {
            Ok(nr_read) => nr_read,
            Err(error) if batch.len() == 1 => return Err(self.failed(error)),
            Err(_) => {
                batch.truncate(1);
                self.transfer(&batch, page)
                    .map_err(|error| self.failed(error))?
            }
        };
        if nr_read == 0 {
            if self.is_being_cut(size) {
                return Ok(Fill::Cut);
            }
            self.shared().counters.add(Event::FailedFill, 1);
            return Err(self.error(ErrorKind::Truncated, Op::Read));
        }

        // 4. Publish what was read; what is left over in `batch` is given back.
        batch.truncate(nr_read);
        self.shared().counters.add(Event::Fill, nr_read as u64);
        let mut batch = batch.into_iter();
        let first = batch.next().and_then(|pending| {
            let len = pending.readable;
            Some((self.publish(pending, 1)?, len))
        });
        for pending in batch {
            drop(self.publish(pending, 0));
        }
        match first {
            Some((reference, len)) => Ok(Fill::Filled(reference, len)),
            None => Ok(Fill::Raced),
        }
    }

    /// How far the file can be read whose storage has `fill_size` bytes: if it is written to, that may be further.
    fn readable_size(&self, fill_size: u64) -> u64 {
        match self.writes_if_any() {
            Some(_) => fill_size.max(self.size()),
            None => fill_size,
        }
    }

    /// Whether the file has been, or is being, cut to less than `fill_size` bytes by who tells us so: a transfer that was
    /// to read so much may fall short, and nothing is wrong with the file.
    fn is_being_cut(&self, fill_size: u64) -> bool {
        // In this order: when the cut is over the size is there.
        self.writes_if_any().is_some_and(Writes::is_cutting) || self.fill_size() < fill_size
    }

    /// Publishes a page of zeros.
    fn publish_zeros<'m>(&'m self, pending: Option<Pending<'m, S>>) -> Fill<'m, S> {
        let Some(pending) = pending else {
            return Fill::Raced;
        };
        let bytes = pending.frame.bytes();
        bytes.zero(0, bytes.len());
        let readable = pending.readable;
        match self.publish(pending, 1) {
            Some(reference) => Fill::Filled(reference, readable),
            None => Fill::Raced,
        }
    }

    /// The most pages to read in one transfer: bounded in bytes, and to a sixteenth of the pool.
    pub(crate) fn most_pages(&self) -> usize {
        let pool = self.shared().pool.nr_frames() / 16 * FRAME_BYTES;
        (MOST_BYTES.min(pool) / self.page_size()).max(1)
    }

    /// How many bytes of `page` a file of `size` bytes has.
    pub(crate) fn len_of(&self, page: PageNr, size: u64) -> usize {
        let start = page.checked_mul(self.page_size() as u64);
        start
            .and_then(|start| size.checked_sub(start))
            .map_or(0, |rest| rest.min(self.page_size() as u64) as usize)
    }

    /// Claims the slot of `page` in its `leaf`, if it is empty.
    pub(crate) fn claim_empty<'m>(
        &'m self,
        leaf: Leaf<'m, S>,
        page: PageNr,
    ) -> Option<(Claim<'m, S>, (u64, u64))> {
        let position = Leaf::<S>::slot_of(page);
        // ORDERING: Relaxed; the claim's compare-and-swap decides, and acquires.
        let seen = Slot::from_bits(leaf.slot(position).load(Ordering::Relaxed));
        if seen.state() != State::Empty {
            return None;
        }
        let place = (u64::from(leaf.reference.frame().get()), position as u64);
        let claim = Claim::try_new(self.shared(), leaf, position, seen).ok()?;
        Some((claim, place))
    }

    /// Claims `page` and finds a frame for it, unless it is there already or either takes waiting.
    fn try_prepare(&self, page: PageNr) -> Option<Pending<'_, S>> {
        let frame = self.shared().try_alloc(self.order())?;
        let leaf = self.index().leaf(self.shared(), page)?;
        let (claim, place) = self.claim_empty(leaf, page)?;
        Some(Pending {
            frame,
            claim,
            place,
            len: 0,
            readable: 0,
        })
    }

    /// Reads the pages of `batch`, which are neighbours from `first` on; returns how many were read
    /// whole. Fewer than all means that the file has become shorter.
    fn transfer(&self, batch: &[Pending<'_, S>], first: PageNr) -> std::io::Result<usize> {
        let bufs: Vec<RacyBytes<'_>> = batch
            .iter()
            .map(|pending| pending.frame.bytes().slice(0, pending.len))
            .collect();
        let pos = first * self.page_size() as u64;
        let mut read = {
            let shared = self.shared();
            let frames = batch.iter().map(|pending| pending.frame.frame());
            let nodes = NodeSet::of_frames(&shared.pool, frames);
            let _transfer = shared.transfers.begin(nodes);
            self.backend().read_at(&bufs, pos)?
        };
        let mut nr_read = 0;
        for pending in batch {
            if read < pending.len {
                break;
            }
            read -= pending.len;
            nr_read += 1;
            // What is past the end of the file reads as zeros, whatever was in the frame before.
            let bytes = pending.frame.bytes();
            bytes.zero(pending.len, bytes.len() - pending.len);
        }
        Ok(nr_read)
    }

    /// Publishes a page that was read; with `extra` 1, returns a reference for the caller.
    fn publish<'m>(&'m self, pending: Pending<'m, S>, extra: u32) -> Option<FrameRef<'m, S>> {
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
        (extra == 1).then(|| raw::published(self.shared(), frame))
    }

    fn failed(&self, error: std::io::Error) -> Error {
        self.shared().counters.add(Event::FailedFill, 1);
        Error::from_io(Op::Read, error).with_path(self.path())
    }
}
