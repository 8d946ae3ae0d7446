//! The frames of pages: published for an entry, counted by entries, given back when nothing names them.
//!
//! The rules of the count are at the top of [`counts`](crate::words::counts). All that add to it or take from it hold the
//! claim of the entry that they count, or have the frame isolated.
//!
//! Ordering. What takes from the count is a release, and what acts on it an acquire: whoever finds that the page is
//! mapped once, or gets the count to zero, or finds no mappings left, sees all that was done to the page through the
//! entries that are gone. What adds is relaxed: it is read by others only after the claim has ended, or in the chain of
//! read-modify-writes of this word.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FramePool, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering, fence};

use crate::pages::family::Family;
use crate::pages::owner::{self, Binding, Owner};
use crate::supply::raw;
use crate::words::claim::Claim;
use crate::words::counts::{Counts, ISOLATED, MAPPING, MIGRATION};
use crate::words::cow::{Cow, References, decide};
use crate::words::pte::{Pte, State};

/// More entries than can be counted; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The pages of spaces in a pool: what their frames' records say, and how that changes.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'s, S: RefScheme> {
    pool: &'s FramePool<S>,
}

impl<'s, S: RefScheme> Pages<'s, S> {
    #[inline]
    pub(crate) fn of(pool: &'s FramePool<S>) -> Self {
        Self { pool }
    }

    fn word(self, frame: FrameNr) -> &'s AtomicU64 {
        raw::counts_of(self.pool, frame)
    }

    /// The counts of a page that cannot be freed meanwhile.
    pub(crate) fn counts(self, frame: FrameNr) -> Counts {
        // ORDERING: Acquire; see the module's text.
        Counts::from_bits(self.word(frame).load(Ordering::Acquire))
    }

    /// Makes a page of a block: page `index` of `family`, counted as `counts`, which is not zero. Neither waits nor
    /// allocates.
    pub(crate) fn publish(
        self,
        block: UniqueFrame<'_, S>,
        family: Arc<Family>,
        index: u64,
        binding: Binding,
        counts: u64,
    ) -> FrameNr {
        family.add_frame();
        let owner = Owner {
            family: owner::family_to_word(family),
            index,
            binding,
        };
        self.publish_moved(block, owner, counts)
    }

    /// Makes a block the page that `owner` is of, which the caller moves out of another frame. The share of its family goes
    /// with it, and that frame is to be let go of without it, as [`let_go_moved`](Self::let_go_moved) does.
    pub(crate) fn publish_moved(
        self,
        block: UniqueFrame<'_, S>,
        owner: Owner,
        counts: u64,
    ) -> FrameNr {
        debug_assert!(counts != 0);
        let private = [counts, owner.binding.to_word()];
        raw::publish_page(block, (owner.family, owner.index), private)
    }

    /// Lets go of the frame out of which a page was moved, which the caller has isolated, and no entry names any more. It is
    /// the answer; none if somebody looks at the frame at this moment, who frees it then.
    pub(crate) fn let_go_moved(self, frame: FrameNr) -> Option<UniqueFrame<'s, S>> {
        let word = self.word(frame);
        // ORDERING: Acquire; see the module's text: the entries may be gone by the doing of others.
        let counts = Counts::from_bits(word.load(Ordering::Acquire));
        debug_assert!(counts.is_isolated() && counts.mappings() == 0);
        // Nobody else changes the word: no entry names the frame, and who has only a reference leaves alone what is
        // isolated, and what is zero (`try_isolate`). So this need not be a read-modify-write.
        // ORDERING: Relaxed; it is the release of the count of references that publishes it.
        word.store(0, Ordering::Relaxed);
        raw::counted_reference(self.pool, frame).try_unique().ok()
    }

    /// Whose a page is that has a count, and keeps it meanwhile: the caller has isolated it, or claimed an entry of it.
    pub(crate) fn owner_of(self, frame: FrameNr) -> Owner {
        let record = self.pool.meta(frame);
        let (family, index) = record.owner();
        let [_, binding] = record.private();
        Owner {
            family,
            index,
            binding: Binding::from_word(binding),
        }
    }

    /// Who else has a reference to a page that is mapped once, by the entry that the caller has claimed.
    pub(crate) fn references(self, frame: FrameNr) -> References {
        if self.pool.meta(frame).count() != 1 {
            return References::Foreign;
        }
        // ORDERING: Acquire fence; the load above read what the last put (a release) left, or what was added by a
        // read-modify-write since, which continues its release sequence. So the reads of those who had the page pinned
        // happen before it is written.
        fence(Ordering::Acquire);
        References::Mapped
    }

    /// Counts an entry of the same kind as `entry`, which the caller has claimed, for a copy of it.
    pub(crate) fn count_copy(self, entry: Pte) -> Result<(), TooMany> {
        let (frame, one) = match entry.state() {
            State::Present(frame) => (frame, MAPPING),
            State::Migration(frame) => (frame, MIGRATION),
            State::Empty | State::Busy => return Ok(()),
        };
        // ORDERING: Relaxed; see the module's text.
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

    /// Takes back what a present entry, or a migration entry, was counted as: the caller has claimed it and taken it
    /// out, or it was in a table that is the caller's alone.
    pub(crate) fn drop_entry(self, entry: Pte) {
        match entry.state() {
            State::Present(frame) => self.take(frame, MAPPING),
            State::Migration(frame) => self.take(frame, MIGRATION),
            State::Empty | State::Busy => {}
        }
    }

    /// Counts one more mapping of a page that the caller has isolated, and which so has a count. There are at most as many
    /// of these as migration entries of another page, which is far from the end of the field even where the limit is
    /// reached.
    pub(crate) fn add_mapping(self, frame: FrameNr) {
        // ORDERING: Relaxed; see the module's text.
        self.word(frame).fetch_add(MAPPING, Ordering::Relaxed);
    }

    /// A present entry becomes a migration entry. Returns the counts after that.
    pub(crate) fn turn_to_migration(self, frame: FrameNr) -> Result<Counts, TooMany> {
        // ORDERING: AcqRel; whoever finds no mappings left sees what was done through those that were dropped.
        let turned = MIGRATION.wrapping_sub(MAPPING);
        let before = self.word(frame).fetch_add(turned, Ordering::AcqRel);
        if Counts::from_bits(before).is_over_with_migration() {
            self.turn_back(frame);
            return Err(TooMany);
        }
        Ok(Counts::from_bits(before.wrapping_add(turned)))
    }

    /// A migration entry becomes a present entry of the same frame.
    pub(crate) fn turn_back(self, frame: FrameNr) {
        let turned = MAPPING.wrapping_sub(MIGRATION);
        // ORDERING: AcqRel; as for any change that takes from a field.
        self.word(frame).fetch_add(turned, Ordering::AcqRel);
    }

    /// A migration entry was replaced by a present one of another frame.
    pub(crate) fn drop_migration(self, frame: FrameNr) {
        self.take(frame, MIGRATION);
    }

    /// Moves the page of a claimed entry into `to`, if that entry is its only one, nobody has it pinned, and nobody migrates
    /// it; else both are handed back. What has become free is the answer: the frame that the page left, unless
    /// somebody looks at it at this moment, who frees it then.
    ///
    /// While the claim lasts nobody writes the page, pins it, or gets another entry of it: all that takes a claim of
    /// an entry, and there is no other. Only who has found the page by its frame may isolate it meanwhile; the swap
    /// of the count decides between the two.
    pub(crate) fn move_claimed<'t>(
        self,
        claim: Claim<'t>,
        to: UniqueFrame<'s, S>,
    ) -> Result<Option<UniqueFrame<'s, S>>, (Claim<'t>, UniqueFrame<'s, S>)> {
        let entry = claim.before();
        let from = FrameNr::new(entry.frame());
        let is_alone = decide(self.counts(from), self.references(from)) == Cow::Reuse;
        if !is_alone {
            return Err((claim, to));
        }
        let bytes = to.bytes();
        bytes.copy_from_racy(0, self.pool.bytes(from, bytes.len()));
        let owner = self.owner_of(from);
        // ORDERING: AcqRel, as of every change that takes from a field; Relaxed on failure: nothing was learned.
        let swapped =
            self.word(from)
                .compare_exchange(MAPPING, 0, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_err() {
            return Err((claim, to));
        }
        let arrived = self.publish_moved(to, owner, MAPPING);
        claim.end(entry.restored(arrived));
        Ok(raw::counted_reference(self.pool, from).try_unique().ok())
    }

    /// Isolates a page that has a count, which the caller makes sure of: it has claimed an entry that names it. False
    /// if it is isolated already.
    pub(crate) fn isolate(self, frame: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the end of the isolation before.
        let before = self.word(frame).fetch_or(ISOLATED, Ordering::Acquire);
        !Counts::from_bits(before).is_isolated()
    }

    /// Isolates a page to which the caller has a reference only, if anything is counted still.
    pub(crate) fn try_isolate(self, frame: FrameNr) -> bool {
        let word = self.word(frame);
        // ORDERING: Relaxed; the swap decides.
        let mut seen = word.load(Ordering::Relaxed);
        // Bound: the swap fails only if another thread changed the count, which is progress of that one.
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

    /// Ends the isolation; gives the frame back if nothing names it any more.
    pub(crate) fn end_isolation(self, frame: FrameNr) {
        debug_assert!(self.counts(frame).is_isolated());
        self.take(frame, ISOLATED);
    }

    /// The family of a page that the caller has isolated.
    pub(crate) fn family_of(self, frame: FrameNr) -> Arc<Family> {
        debug_assert!(self.counts(frame).is_isolated());
        let (family, _) = self.pool.meta(frame).owner();
        owner::family_of_word(family)
    }

    /// Takes from the count; who gets it to zero gives the frame back.
    fn take(self, frame: FrameNr, what: u64) {
        // ORDERING: AcqRel; see the module's text.
        let before = self.word(frame).fetch_sub(what, Ordering::AcqRel);
        if before == what {
            self.give_back(frame);
        }
    }

    /// Drops the reference on behalf of the entries, for who has brought the count to zero.
    #[cold]
    fn give_back(self, frame: FrameNr) {
        let (family, _) = self.pool.meta(frame).owner();
        owner::family_from_word(family).remove_frame();
        drop(raw::counted_reference(self.pool, frame));
    }
}
