//! The referenced lookup: from a page to a reference to its frame, filling the page if it is missing.
//!
//! Place. Pins, the referenced read, and every read that the optimistic read gives up.
//!
//! Protocol. Load the slot; take a reference to the frame that the slot names; check
//! that the slot is unchanged. If it is, the reference is to the page. If not, the frame may have been reused
//! between the load and the `try_get`: the reference is dropped again, and
//! the thread that drops the last one frees the frame.
//!
//! The bytes of a frame with a reference do not change (a page is written before it is
//! published), so a copy under the reference needs no validation of its own.
//!
//! Progress. A round is repeated only after another thread has changed the slot or is about to. For a fill
//! and a cut of the file the lookup sleeps; everything else lasts a few steps.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameRef, TryGetFrame};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::home::check_may_wait;
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::file_index::{Seen, WATCHES};
use crate::index::leaf::Leaf;
use crate::mapping::record::Mapping;
use crate::read::fill::{Fill, Filler};

/// A page, held.
#[derive(Debug)]
pub(crate) struct Found<'m, S: RefScheme> {
    pub(crate) reference: FrameRef<'m, S>,
    /// The size of the file at a moment when this was its page, or less: the page's bytes from this position
    /// of the file on are not the file's. (A later size may be that of a file that has been
    /// shorter or longer in between, of which this page knows nothing.)
    pub(crate) end: u64,
}

/// Looks pages of a file up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<'m, S: RefScheme> Lookup<'m, S> {
    /// A reference to the frame of `page`. A missing page is filled, along with missing neighbours
    /// up to `ahead` pages in all; `ahead` is called once, and only for a fill.
    pub(crate) fn get(
        self,
        page: PageNr,
        ahead: impl Fn() -> usize,
    ) -> Result<Found<'m, S>, Error> {
        let mut want = None;
        let mut backoff = Backoff::new();
        loop {
            if let Some(seen) = self.0.index().look(page) {
                match seen.slot.state() {
                    State::Present(_) => {
                        if let Some(found) = self.try_get_seen(seen)? {
                            self.mark_referenced(page, seen);
                            return Ok(found);
                        }
                        backoff.wait();
                        continue;
                    }
                    // As `Seen::wait_for_claim`, by which hits would have an instruction more.
                    State::Busy if backoff.rounds() < WATCHES => {
                        backoff.wait();
                        continue;
                    }
                    State::Busy => {
                        check_may_wait(Op::Read).map_err(|error| error.with_path(self.0.path()))?;
                        seen.wait_while_busy(self.0.claims());
                        continue;
                    }
                    State::Empty => {}
                }
            }
            let want = *want.get_or_insert_with(&ahead);
            match Filler(self.0).fill(page, want)? {
                Fill::Filled(reference, len) => {
                    let end = page * self.0.page_size() as u64 + len as u64;
                    return Ok(Found {
                        reference,
                        end: end.min(self.0.size()),
                    });
                }
                Fill::Raced => {}
                Fill::Cut => {
                    if let Some(writes) = self.0.writes_if_any() {
                        writes.wait_while_cutting(&self.0.claims().waits);
                    }
                }
            }
        }
    }

    /// A reference to the frame of `page`, and how many bytes of it the file has, for the operation `op`.
    ///
    /// In line, as [`get`](Self::get) has to be compiled where its outcome is used.
    #[inline(always)]
    pub(crate) fn hold<F: Fn() -> usize + ?Sized>(
        self,
        page: PageNr,
        op: Op,
        ahead: &F,
    ) -> Result<(FrameRef<'m, S>, usize), Error> {
        let past_end = || self.0.error(ErrorKind::OutOfRange, op);
        let start = page
            .checked_mul(self.0.page_size() as u64)
            .filter(|start| *start < self.0.size())
            .ok_or_else(past_end)?;
        let found = match self.try_hit(page) {
            Some(found) => Ok(found),
            None => self.get(page, ahead),
        };
        let Found { reference, end } = match found {
            Ok(found) => found,
            Err(error) => self.get_after(error, page, &|| ahead())?,
        };
        // The file may have been found to be shorter meanwhile.
        let rest = end.saturating_sub(start);
        if rest == 0 {
            return Err(past_end());
        }
        Ok((reference, rest.min(self.0.page_size() as u64) as usize))
    }

    /// Repeats [`get`](Self::get) if it has failed with `error` for lack of frames, and unclean pages
    /// were in the way. No lock of any file is held. This is a function apart, called where `get` is, so that successful
    /// lookups are compiled as if there were no second one: to pass an outcome on through memory costs seven
    /// nanoseconds.
    #[cold]
    #[inline(never)]
    pub(crate) fn get_after(
        self,
        error: Error,
        page: PageNr,
        ahead: &dyn Fn() -> usize,
    ) -> Result<Found<'m, S>, Error> {
        self.0.make_room(error)?;
        self.get(page, ahead)
    }

    /// As [`peek`](Self::peek), and notes that `page` was used. What cannot be had at once, for whatever reason, is for [`get`](Self::get).
    ///
    /// In line, as that is too long to be: an outcome that is passed on through memory twice costs as much as the reference.
    #[inline(always)]
    fn try_hit(self, page: PageNr) -> Option<Found<'m, S>> {
        let seen = self.0.index().look(page)?;
        if !matches!(seen.slot.state(), State::Present(_)) {
            return None;
        }
        let found = self.try_get_seen(seen).ok()??;
        self.mark_referenced(page, seen);
        Some(found)
    }

    /// A reference to the frame that was `seen` in the slot, if it is still the page's.
    #[inline]
    pub(crate) fn try_get_seen(self, seen: Seen<'_>) -> Result<Option<Found<'m, S>>, Error> {
        let frame = pagewell_frame::FrameNr::new(seen.slot.frame());
        match self.0.pool().try_get(frame) {
            TryGetFrame::Taken(reference) => {
                // `try_get` acquires, so these loads come after the reference was taken. Both acquire, so
                // they stay in this order: the file had this size while this was its page.
                let end = self.0.size();
                let is_pages = seen.is_unchanged();
                Ok(is_pages.then_some(Found { reference, end }))
            }
            TryGetFrame::Locked => Ok(None),
            TryGetFrame::Saturated => Err(self.0.error(ErrorKind::TooManyPins, Op::Read)),
        }
    }

    /// A reference to the frame of `page`, if it is there; nothing is waited for, or noted.
    pub(crate) fn peek(self, page: PageNr) -> Result<Option<Found<'m, S>>, Error> {
        match self.0.index().look(page) {
            Some(seen) if matches!(seen.slot.state(), State::Present(_)) => self.try_get_seen(seen),
            _ => Ok(None),
        }
    }

    /// Whether somebody fills `page`, or does something else to its slot.
    pub(crate) fn is_under_way(self, page: PageNr) -> bool {
        let seen = self.0.index().look(page);
        seen.is_some_and(|seen| seen.slot.state() == State::Busy)
    }

    /// Notes for the eviction policy that `page` was used, if it is there and that is not noted yet; whether it is there now, and marked.
    pub(crate) fn mark(self, page: PageNr) -> bool {
        let Some(seen) = self.0.index().look(page) else {
            return false;
        };
        let is_there = matches!(seen.slot.state(), State::Present(_));
        if is_there {
            self.mark_referenced(page, seen);
        }
        is_there
    }

    /// Notes for the eviction policy that `page` was used. Writes only if that is not noted yet.
    #[inline]
    pub(crate) fn mark_referenced(self, page: PageNr, seen: Seen<'_>) {
        if !seen.slot.is_hot() {
            self.store_referenced(page, seen);
        }
    }

    fn store_referenced(self, page: PageNr, seen: Seen<'_>) {
        // Storing to a slot takes a hold of its leaf (I3 of the index).
        if let Some(leaf) = self.0.index().leaf(self.0.claims(), page) {
            // ORDERING: Relaxed; the mark is a hint, and a read-modify-write passes on what the slot's
            // publisher released. If the slot has changed, so has the page, and the mark is void.
            let _ = leaf.slot(Leaf::<S>::slot_of(page)).compare_exchange(
                seen.slot.bits(),
                seen.slot.with_referenced().bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}
