//! Frames of pages and the counts of their entries ([`counts`](crate::words::counts)). A frame is
//! freed with its last entry and reference. A thread that changes a count has claimed the counted
//! entry, has removed it under its claim, has exclusive use of its table, or has isolated the
//! frame.
//!
//! Ordering. A decrease of the count is a release, and a load or decrease on whose result a thread
//! acts is an acquire: a thread that finds the page mapped once, makes the count zero, or finds no
//! mappings left sees all accesses through the dropped entries. An increase is relaxed: other
//! threads see it after the claim has ended, or by the modification order of this word.

use std::sync::Arc;

use pagewell_frame::{FrameNr, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::pages::links::Family;
use crate::pages::owner::{self, Owner};
use crate::supply::frames::Supply;
use crate::supply::view;
use crate::words::claim::Claim;
use crate::words::counts::{Counts, ISOLATED, MAPPING, MIGRATION};
use crate::words::pte::{Pte, State};

/// Error: more entries than can be counted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Supply {
    fn word(&self, frame: FrameNr) -> &AtomicU64 {
        view::counts_of(self.pool(), frame)
    }

    /// Returns the counts of a page. The caller ensures that it is not freed concurrently.
    pub(crate) fn counts(&self, frame: FrameNr) -> Counts {
        // ORDERING: Acquire; see the module.
        Counts::from_bits(self.word(frame).load(Ordering::Acquire))
    }

    /// Makes `block` a page, with `counts`, which must not be zero. Neither waits nor allocates.
    pub(crate) fn publish(
        &self,
        block: UniqueFrame<'_>,
        family: Arc<Family>,
        index: u64,
        is_bound: bool,
        counts: u64,
    ) -> FrameNr {
        family.add_frame();
        let owner = Owner {
            family: owner::family_to_word(family),
            index,
            is_bound,
        };
        self.publish_moved(block, owner, counts)
    }

    /// Makes `block` the page of `owner`, moved out of another frame. The block takes over the
    /// strong reference to the family: the other frame is freed without one.
    pub(crate) fn publish_moved(
        &self,
        block: UniqueFrame<'_>,
        owner: Owner,
        counts: u64,
    ) -> FrameNr {
        debug_assert!(counts != 0);
        let private = [counts, u64::from(owner.is_bound)];
        view::publish_page(block, (owner.family, owner.index), private)
    }

    /// Sets the count of `frame`, isolated and without entries after a move, to zero. Returns the
    /// frame, or `None` if another thread has a reference: its put then frees it.
    pub(crate) fn let_go_moved(&self, frame: FrameNr) -> Option<UniqueFrame<'_>> {
        let word = self.word(frame);
        // ORDERING: Acquire; see the module. Other threads may have dropped the entries.
        let counts = Counts::from_bits(word.load(Ordering::Acquire));
        debug_assert!(counts.is_isolated() && counts.mappings() == 0);
        // A store suffices: no entry names the frame, and threads that have only a reference change
        // neither isolated nor zero counts (`try_isolate`).
        // ORDERING: Relaxed; the release of the reference count publishes it.
        word.store(0, Ordering::Relaxed);
        view::counted_reference(self.pool(), frame)
            .try_unique()
            .ok()
    }

    /// Returns the owner of a page. The caller has isolated the page, or claimed an entry of it.
    pub(crate) fn owner_of(&self, frame: FrameNr) -> Owner {
        let record = self.pool().meta(frame);
        let (family, index) = record.owner();
        let [_, is_bound] = record.private();
        Owner {
            family,
            index,
            is_bound: is_bound != 0,
        }
    }

    /// Returns `true` if a page has references besides that of its entries: a pin's, or another
    /// thread's. The caller has claimed its only entry, or all are migration entries. After
    /// `false`, reads through former pins happen before the caller's later accesses.
    pub(crate) fn has_other_references(&self, frame: FrameNr) -> bool {
        !self.pool().meta(frame).has_one_reference()
    }

    /// Returns `true` if only the entry that the caller has claimed uses the page: a write in an
    /// exclusive table needs no copy. This is valid during the claim, since another entry or a pin
    /// requires a claim of an entry, too.
    pub(crate) fn is_unshared(&self, frame: FrameNr) -> bool {
        self.counts(frame).is_of_one_entry() && !self.has_other_references(frame)
    }

    /// Counts a copy of `entry`, which the caller has claimed. An error changes nothing.
    pub(crate) fn count_copy(&self, entry: Pte) -> Result<(), TooMany> {
        let (frame, one) = match entry.state() {
            State::Present(frame) => (frame, MAPPING),
            State::Migration(frame) => (frame, MIGRATION),
            State::Empty | State::Busy => return Ok(()),
        };
        // ORDERING: Relaxed; see the module.
        let before = Counts::from_bits(self.word(frame).fetch_add(one, Ordering::Relaxed));
        let is_over = match one {
            MAPPING => before.is_over_with_mapping(),
            _ => before.is_over_with_migration(),
        };
        if is_over {
            self.take(frame, one);
            return Err(TooMany);
        }
        Ok(())
    }

    /// Uncounts an entry, removed or replaced under its claim, or with exclusive use of the table.
    pub(crate) fn drop_entry(&self, entry: Pte) {
        match entry.state() {
            State::Present(frame) => self.take(frame, MAPPING),
            State::Migration(frame) => self.take(frame, MIGRATION),
            State::Empty | State::Busy => {}
        }
    }

    /// Counts a mapping of a page that the caller has isolated. No limit is checked: it replaces a
    /// migration entry of the old frame, and their maximum is far below the range of the field.
    pub(crate) fn add_mapping(&self, frame: FrameNr) {
        // ORDERING: Relaxed; see the module.
        self.word(frame).fetch_add(MAPPING, Ordering::Relaxed);
    }

    /// Counts the conversion of a present entry to a migration entry. An error changes nothing.
    pub(crate) fn turn_to_migration(&self, frame: FrameNr) -> Result<Counts, TooMany> {
        // ORDERING: AcqRel; a thread that finds no mappings sees all accesses through them.
        let turned = MIGRATION.wrapping_sub(MAPPING);
        let before = self.word(frame).fetch_add(turned, Ordering::AcqRel);
        if Counts::from_bits(before).is_over_with_migration() {
            self.turn_back(frame);
            return Err(TooMany);
        }
        Ok(Counts::from_bits(before.wrapping_add(turned)))
    }

    /// Counts the conversion of a migration entry to a present entry of the same frame.
    pub(crate) fn turn_back(&self, frame: FrameNr) {
        let turned = MAPPING.wrapping_sub(MIGRATION);
        // ORDERING: AcqRel; as for any decrease of a field.
        self.word(frame).fetch_add(turned, Ordering::AcqRel);
    }

    /// Moves the page of a claimed entry to `to`, and ends the claim. Returns the old frame, or
    /// `None` if another thread has a reference to it: the last put then frees it. If the page has
    /// another entry, is pinned or is isolated, the error returns claim and block. While the claim
    /// is held, no other thread writes the page, pins it, or creates another entry, but a thread
    /// that finds it by its frame may isolate it. Then the swap of the count fails.
    pub(crate) fn move_claimed<'s, 't>(
        &'s self,
        claim: Claim<'t>,
        to: UniqueFrame<'s>,
    ) -> Result<Option<UniqueFrame<'s>>, (Claim<'t>, UniqueFrame<'s>)> {
        let entry = claim.before();
        let from = FrameNr::new(entry.frame());
        if !self.is_unshared(from) {
            return Err((claim, to));
        }
        let bytes = to.bytes();
        bytes.copy_from_racy(0, self.pool().bytes(from, bytes.len()));
        let owner = self.owner_of(from);
        // ORDERING: AcqRel, as for any decrease of a field; Relaxed on failure.
        let swapped =
            self.word(from)
                .compare_exchange(MAPPING, 0, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_err() {
            return Err((claim, to));
        }
        let arrived = self.publish_moved(to, owner, MAPPING);
        claim.end(entry.restored(arrived));
        Ok(view::counted_reference(self.pool(), from).try_unique().ok())
    }

    /// Isolates a page, unless it already is. The caller has claimed an entry of it.
    pub(crate) fn isolate(&self, frame: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the end of the previous isolation.
        let before = self.word(frame).fetch_or(ISOLATED, Ordering::Acquire);
        !Counts::from_bits(before).is_isolated()
    }

    /// As [`isolate`](Self::isolate), with only a reference. Fails if the count is zero.
    pub(crate) fn try_isolate(&self, frame: FrameNr) -> bool {
        let word = self.word(frame);
        // ORDERING: Relaxed; the swap decides.
        let mut seen = word.load(Ordering::Relaxed);
        // Progress: the swap fails spuriously, or because another thread has changed the count.
        loop {
            let counts = Counts::from_bits(seen);
            if counts.is_zero() || counts.is_isolated() {
                return false;
            }
            // ORDERING: Acquire, as in `isolate`; Relaxed on failure.
            match word.compare_exchange_weak(
                seen,
                seen | ISOLATED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    pub(crate) fn end_isolation(&self, frame: FrameNr) {
        debug_assert!(self.counts(frame).is_isolated());
        self.take(frame, ISOLATED);
    }

    pub(crate) fn family_of(&self, frame: FrameNr) -> Arc<Family> {
        debug_assert!(self.counts(frame).is_isolated());
        let (family, _) = self.pool().meta(frame).owner();
        owner::family_of_word(family)
    }

    fn take(&self, frame: FrameNr, what: u64) {
        // ORDERING: AcqRel; see the module.
        let before = self.word(frame).fetch_sub(what, Ordering::AcqRel);
        if before == what {
            self.give_back(frame);
        }
    }

    #[cold]
    fn give_back(&self, frame: FrameNr) {
        let (family, _) = self.pool().meta(frame).owner();
        owner::family_from_word(family).remove_frame();
        drop(view::counted_reference(self.pool(), frame));
    }
}
