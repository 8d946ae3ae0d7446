//! Frames of pages: published for an entry, counted by entries, freed when nothing names them.
//! [`counts`](crate::words::counts) has the rules. Threads that change a count hold the claim of
//! the counted entry, or have isolated the frame.
//!
//! Ordering. A decrease of the count is a release, and an action on it an acquire: a thread that
//! finds the page mapped once, makes the count zero, or finds no mappings left sees all that was
//! done to the page through the dropped entries. An increase is relaxed: other threads load it only
//! after the claim has ended, or in the chain of read-modify-writes of this word.

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

/// Error: more entries than can be counted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Pages of spaces in a pool: the metadata of their frames, and its changes.
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

    /// Returns the counts of a page that cannot be freed concurrently.
    pub(crate) fn counts(self, frame: FrameNr) -> Counts {
        // ORDERING: Acquire; see the module's documentation.
        Counts::from_bits(self.word(frame).load(Ordering::Acquire))
    }

    /// Makes a block page `index` of `family`, with nonzero `counts`. Neither waits nor allocates.
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

    /// Makes a block the page of `owner`, which the caller moves out of another frame. The strong
    /// reference to the family moves along, so the caller frees the other frame with
    /// [`let_go_moved`](Self::let_go_moved).
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

    /// Returns the frame that a page was moved out of, which the caller has isolated and no entry
    /// names. Returns `None` if another thread has a reference: the last put then frees the frame.
    pub(crate) fn let_go_moved(self, frame: FrameNr) -> Option<UniqueFrame<'s, S>> {
        let word = self.word(frame);
        // ORDERING: Acquire; see the module: other threads may have dropped the entries.
        let counts = Counts::from_bits(word.load(Ordering::Acquire));
        debug_assert!(counts.is_isolated() && counts.mappings() == 0);
        // No other thread changes the word: no entry names the frame, and a thread that has only a
        // reference does not change isolated or zero counts (`try_isolate`). So a store suffices.
        // ORDERING: Relaxed; the release of the reference count publishes it.
        word.store(0, Ordering::Relaxed);
        raw::counted_reference(self.pool, frame).try_unique().ok()
    }

    /// Returns the owner of a page. The caller has isolated it, or claimed an entry of it.
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

    /// Detects other references to a page that only the entry claimed by the caller maps.
    pub(crate) fn references(self, frame: FrameNr) -> References {
        if self.pool.meta(frame).count() != 1 {
            return References::Foreign;
        }
        // ORDERING: Acquire fence; the load above read the value of the last put (a release), or of
        // a later read-modify-write, which continues its release sequence. So reads through former
        // pins happen before the page is written.
        fence(Ordering::Acquire);
        References::Mapped
    }

    /// Counts a copy of `entry`, which the caller has claimed.
    pub(crate) fn count_copy(self, entry: Pte) -> Result<(), TooMany> {
        let (frame, one) = match entry.state() {
            State::Present(frame) => (frame, MAPPING),
            State::Migration(frame) => (frame, MIGRATION),
            State::Empty | State::Busy => return Ok(()),
        };
        // ORDERING: Relaxed; see the module's documentation.
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

    /// Uncounts a present or migration entry. The caller has claimed and removed it, or had
    /// exclusive use of its table.
    pub(crate) fn drop_entry(self, entry: Pte) {
        match entry.state() {
            State::Present(frame) => self.take(frame, MAPPING),
            State::Migration(frame) => self.take(frame, MIGRATION),
            State::Empty | State::Busy => {}
        }
    }

    /// Counts a mapping of a page that the caller has isolated, so that its count is not zero.
    /// There are at most as many such mappings as migration entries of another page, far from the
    /// end of the field even if the limit is reached.
    pub(crate) fn add_mapping(self, frame: FrameNr) {
        // ORDERING: Relaxed; see the module's documentation.
        self.word(frame).fetch_add(MAPPING, Ordering::Relaxed);
    }

    /// Counts the conversion of a present entry to a migration entry. Returns the new counts.
    pub(crate) fn turn_to_migration(self, frame: FrameNr) -> Result<Counts, TooMany> {
        // ORDERING: AcqRel; a thread that finds no mappings sees what was done through them.
        let turned = MIGRATION.wrapping_sub(MAPPING);
        let before = self.word(frame).fetch_add(turned, Ordering::AcqRel);
        if Counts::from_bits(before).is_over_with_migration() {
            self.turn_back(frame);
            return Err(TooMany);
        }
        Ok(Counts::from_bits(before.wrapping_add(turned)))
    }

    /// Counts the conversion of a migration entry to a present entry of the same frame.
    pub(crate) fn turn_back(self, frame: FrameNr) {
        let turned = MAPPING.wrapping_sub(MIGRATION);
        // ORDERING: AcqRel; as for any decrease of a field.
        self.word(frame).fetch_add(turned, Ordering::AcqRel);
    }

    /// Uncounts a migration entry that was replaced by a present entry of another frame.
    pub(crate) fn drop_migration(self, frame: FrameNr) {
        self.take(frame, MIGRATION);
    }

    /// Moves the page of a claimed entry to `to` if the entry is its only one, and it is neither
    /// pinned nor isolated. Otherwise returns both. Returns the old frame, or `None` if another
    /// thread has a reference: the last put then frees it.
    ///
    /// During the claim no thread writes the page, pins it, or creates another entry: each takes a
    /// claim of an entry, and there is only one. Only a thread that finds the page by its frame may
    /// isolate it concurrently; the swap of the count decides.
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
        // ORDERING: AcqRel, as for any decrease of a field; Relaxed on failure.
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

    /// Isolates a page whose count the caller keeps above zero by the claim of an entry. Returns
    /// `false` if it is isolated already.
    pub(crate) fn isolate(self, frame: FrameNr) -> bool {
        // ORDERING: Acquire; pairs with the end of the previous isolation.
        let before = self.word(frame).fetch_or(ISOLATED, Ordering::Acquire);
        !Counts::from_bits(before).is_isolated()
    }

    /// Isolates a page by a mere reference. Returns `false` if its count is zero or it is isolated.
    pub(crate) fn try_isolate(self, frame: FrameNr) -> bool {
        let word = self.word(frame);
        // ORDERING: Relaxed; the swap decides.
        let mut seen = word.load(Ordering::Relaxed);
        // Bound: the swap fails only if another thread changed the count, and so made progress.
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

    /// Ends the isolation. Drops the reference of the entries if the count is zero.
    pub(crate) fn end_isolation(self, frame: FrameNr) {
        debug_assert!(self.counts(frame).is_isolated());
        self.take(frame, ISOLATED);
    }

    pub(crate) fn family_of(self, frame: FrameNr) -> Arc<Family> {
        debug_assert!(self.counts(frame).is_isolated());
        let (family, _) = self.pool.meta(frame).owner();
        owner::family_of_word(family)
    }

    fn take(self, frame: FrameNr, what: u64) {
        // ORDERING: AcqRel; see the module's documentation.
        let before = self.word(frame).fetch_sub(what, Ordering::AcqRel);
        if before == what {
            self.give_back(frame);
        }
    }

    /// Drops the reference of the entries. The caller has made the count zero.
    #[cold]
    fn give_back(self, frame: FrameNr) {
        let (family, _) = self.pool.meta(frame).owner();
        owner::family_from_word(family).remove_frame();
        drop(raw::counted_reference(self.pool, frame));
    }
}
