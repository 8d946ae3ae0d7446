//! Referenced lookup: from a page to a reference to its frame. Fills the page if it is missing.
//!
//! Protocol. Load the slot, take a reference to the frame that it names, and check that the slot is
//! unchanged. If so, the reference is to the page. Otherwise the frame may have been reused before
//! the `try_get`; the reference is dropped, and the thread that drops the last one frees the frame.
//!
//! The bytes of a frame do not change while a thread holds a reference besides the slot's: a writer
//! stores bytes only before it publishes the frame, or while the frame is frozen, which such a
//! reference prevents. So a copy under the reference needs no validation.
//!
//! Progress. An attempt is repeated only if another thread changes the slot or a transfer of
//! several pages fails. Lookups sleep during long claims and truncations. Other waits are brief.

use pagewell_frame::{FrameRef, TryGetFrame};
use pagewell_sync::atomic::Ordering;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::home::check_may_wait;
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::index::claim::Leaf;
use crate::index::file_index::{Seen, WATCHES};
use crate::mapping::followers::Followers;
use crate::mapping::record::Mapping;
use crate::read::fill::{Fill, Filler};

#[derive(Debug)]
pub(crate) struct Found<'m> {
    pub(crate) reference: FrameRef<'m>,
    /// End of the file's bytes in this page, as a position in the file. The file had at least this
    /// size while the page was in this frame; later sizes may not apply to it.
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Waited {
    Ended,
    /// Several pages failed together: the page must be tried alone.
    FailedTogether,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'m>(pub(crate) &'m Mapping);

impl<'m> Lookup<'m> {
    /// Returns a reference to the frame of `page`. If the page is missing, fills it and missing
    /// neighbours, at most `ahead` pages in total. `ahead` is called at most once. The lookup may
    /// wait for claims and for a budget reservation, so the caller holds no claim.
    pub(crate) fn get(self, page: PageNr, ahead: impl Fn() -> usize) -> Result<Found<'m>, Error> {
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
                    // `Seen::wait_for_claim` would add an instruction to hits.
                    State::Busy if backoff.rounds() < WATCHES => {
                        backoff.wait();
                        continue;
                    }
                    State::Busy => {
                        if self.wait_for_claim(page, seen)? == Waited::FailedTogether {
                            want = Some(1);
                        }
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

    /// Waits as [`Mapping::wait_for_change`] does, for a caller that needs the bytes of `page`.
    /// Fails with the error of a fill that it has waited for ([`crate::mapping::followers`]).
    pub(crate) fn wait_for_change(self, page: PageNr, backoff: &mut Backoff) -> Result<(), Error> {
        match self.0.index().look(page) {
            Some(seen) if seen.slot.is_busy() && backoff.rounds() >= WATCHES => {
                // The caller tries the page alone in any case.
                self.wait_for_claim(page, seen)
                    .map(|(Waited::Ended | Waited::FailedTogether)| ())
            }
            _ => {
                backoff.wait();
                Ok(())
            }
        }
    }

    /// Sleeps until the claim of a slot loaded as `seen` ends. Fails with the error of a fill of
    /// `page` that failed since ([`crate::mapping::followers`]).
    #[cold]
    #[inline(never)]
    fn wait_for_claim(self, page: PageNr, seen: Seen<'_>) -> Result<Waited, Error> {
        check_may_wait(Op::Read).map_err(|error| error.with_path(self.0.path()))?;
        if !seen.slot.is_claimed_empty() {
            seen.wait_while_busy(self.0.claims());
            return Ok(Waited::Ended);
        }
        let report = Followers::join(&self.0.followers, page);
        report.wait(seen, self.0.claims());
        match report.error() {
            Some(error) => Err(error),
            None if report.has_failed_together() => Ok(Waited::FailedTogether),
            None => Ok(Waited::Ended),
        }
    }

    /// Returns a reference to the frame of `page`, and the number of its bytes within the file.
    /// Inlined, since [`get`](Self::get) must be compiled where its result is used.
    #[inline(always)]
    pub(crate) fn hold<F: Fn() -> usize + ?Sized>(
        self,
        page: PageNr,
        op: Op,
        ahead: &F,
    ) -> Result<(FrameRef<'m>, usize), Error> {
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
        // The file may have become shorter.
        let rest = end.saturating_sub(start);
        if rest == 0 {
            return Err(past_end());
        }
        Ok((reference, rest.min(self.0.page_size() as u64) as usize))
    }

    /// If [`get`](Self::get) failed because pages that are not clean prevented eviction, waits
    /// until pages have been cleaned, and repeats `get`. The caller holds no lock of any file.
    /// A separate function: passing the result through memory would cost successful lookups 7 ns.
    #[cold]
    #[inline(never)]
    pub(crate) fn get_after(
        self,
        error: Error,
        page: PageNr,
        ahead: &dyn Fn() -> usize,
    ) -> Result<Found<'m>, Error> {
        self.0.make_room(error)?;
        self.get(page, ahead)
    }

    /// As [`peek`](Self::peek), and sets the accessed bit of `page`. On `None`, for any reason, the
    /// caller calls [`get`](Self::get). Inlined by force: to pass a result through memory twice
    /// costs as much as to take the reference.
    #[inline(always)]
    fn try_hit(self, page: PageNr) -> Option<Found<'m>> {
        let seen = self.0.index().look(page)?;
        if !matches!(seen.slot.state(), State::Present(_)) {
            return None;
        }
        let found = self.try_get_seen(seen).ok()??;
        self.mark_referenced(page, seen);
        Some(found)
    }

    /// Returns a reference to the frame that `seen` names, if it is still the page's.
    #[inline]
    pub(crate) fn try_get_seen(self, seen: Seen<'_>) -> Result<Option<Found<'m>>, Error> {
        let frame = pagewell_frame::FrameNr::new(seen.slot.frame());
        match self.0.pool().try_get(frame) {
            TryGetFrame::Taken(reference) => Ok(self.check(seen, reference)),
            TryGetFrame::Locked => Ok(None),
            TryGetFrame::Saturated => Err(self.0.error(ErrorKind::TooManyPins, Op::Read)),
        }
    }

    /// Returns `reference`, to the frame that `seen` names, if it is still the page's.
    #[inline(always)]
    pub(crate) fn check(self, seen: Seen<'_>, reference: FrameRef<'m>) -> Option<Found<'m>> {
        // `try_get` and these loads acquire, so they stay in this order: the file had this size
        // while the page was in this frame.
        let end = self.0.size();
        let is_pages = seen.is_unchanged();
        is_pages.then_some(Found { reference, end })
    }

    /// Returns a reference to the frame of `page` if the page is resident, without waiting and
    /// without setting the accessed bit.
    pub(crate) fn peek(self, page: PageNr) -> Result<Option<Found<'m>>, Error> {
        match self.0.index().look(page) {
            Some(seen) if matches!(seen.slot.state(), State::Present(_)) => self.try_get_seen(seen),
            _ => Ok(None),
        }
    }

    pub(crate) fn is_under_way(self, page: PageNr) -> bool {
        let seen = self.0.index().look(page);
        seen.is_some_and(|seen| seen.slot.state() == State::Busy)
    }

    /// Sets the accessed bit of `page` if it is resident and not claimed. Returns `true` if it was.
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

    /// Sets the accessed bit of `page`, unless its slot has changed since it was loaded as `seen`.
    #[inline]
    pub(crate) fn mark_referenced(self, page: PageNr, seen: Seen<'_>) {
        if !seen.slot.is_hot() {
            self.store_referenced(page, seen);
        }
    }

    fn store_referenced(self, page: PageNr, seen: Seen<'_>) {
        // A store to a slot requires a leaf handle (I3 of the index).
        if let Some(leaf) = self.0.index().leaf(self.0.claims(), page) {
            // ORDERING: Relaxed; the accessed bit is a hint, and a read-modify-write continues the
            // release sequence of the slot's publisher.
            let _ = leaf.slot(Leaf::slot_of(page)).compare_exchange(
                seen.slot.bits(),
                seen.slot.with_referenced().bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}
