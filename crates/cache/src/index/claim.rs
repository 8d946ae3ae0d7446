//! The claim: the one way to change a slot.
//!
//! Place. Fills, evictions, invalidations and the teardown of a mapping change slots, all of them here,
//! so no change can forget to move the version or to wake waiting threads.
//!
//! Protocol.
//! 1. Get hold of the leaf ([`Leaf`]), load the slot, and swap it for the same word with `busy`
//!    set. A thread that succeeds has the claim; no other thread can change the slot until the claim ends. A slot with a
//!    page can be claimed without a hold of its leaf ([`Claim::try_present`]): it has one itself.
//! 2. Do the work: read the page into a new frame, or freeze the frame.
//! 3. End the claim: [`Claim::fill`], [`Claim::empty`], or drop it, which restores the slot.
//!
//! Invariants.
//! - C1: only the holder of the slot's claim drops or passes on the reference to a page's frame that comes with
//!   a present slot. So a holder that freezes the frame at a count of 1 has
//!   frozen the slot's own reference, and no `put` can be on its way to the frozen word.
//! - C2: a claimed slot holds a reference to its leaf, as a present one does.
//! - C3: a thread that holds a claim never waits for another claim to end. So claims cannot deadlock. It may look for a frame
//!   (`supply::reclaim`), and then wait for transfers from the storage, which wait for no claim.
//!
//! Readers. An optimistic reader that loads the slot before the claim and checks it after sees `busy` or a
//! new version. A restored slot has its old version: nothing was changed, and the reader's bytes are right.
//!
//! Proved by `loom_read_vs_evict_and_reuse`, `loom_pin_vs_evict`, `loom_evict_vs_evict`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, FrameRef, UniqueFrame};
use pagewell_policy::Ghost;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::claims::Claims;
use crate::index::leaf::Leaf;
use crate::index::publish;
use crate::index::raw;

/// The slot has changed, or another thread has claimed it.
struct Lost;

/// Step 1 of the protocol.
#[inline]
fn swap_for_claimed(word: &AtomicU64, seen: Slot) -> Result<(), Lost> {
    debug_assert!(!seen.is_busy());
    // ORDERING: Acquire on success; pairs with the release that ended the last claim, so that the
    // frame's record is seen as its publisher left it. A thread that sees the claim need not see anything before
    // it: bytes are written behind a fence of their own (`UniqueFrame::bytes`).
    let claimed = word.compare_exchange(
        seen.bits(),
        seen.claimed().bits(),
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    claimed.map(|_| ()).map_err(|_| Lost)
}

/// The right to change one slot.
#[derive(Debug)]
pub(crate) struct Claim<'s, S: RefScheme> {
    claims: &'s Claims<S>,
    /// Some until the claim ends.
    place: Option<Place<'s, S>>,
    before: Slot,
}

/// The position of a claimed slot, and what keeps its leaf.
#[derive(Debug)]
enum Place<'s, S: RefScheme> {
    /// Our hold of the leaf, and the slot's position in it.
    InLeaf(Leaf<'s, S>, usize),
    /// The slot, which has a page, and so a reference to its leaf.
    Present(&'s AtomicU64),
}

impl<S: RefScheme> Place<'_, S> {
    fn word(&self) -> &AtomicU64 {
        match self {
            Self::InLeaf(leaf, position) => leaf.slot(*position),
            Self::Present(word) => word,
        }
    }
}

impl<'s, S: RefScheme> Claim<'s, S> {
    /// Claims the slot at `position` of `leaf`, empty or present, if it is still as `seen`.
    ///
    /// # Errors
    ///
    /// The leaf, when the slot has changed or another thread has claimed it.
    pub(crate) fn try_new(
        claims: &'s Claims<S>,
        leaf: Leaf<'s, S>,
        position: usize,
        seen: Slot,
    ) -> Result<Self, Leaf<'s, S>> {
        #[cfg(all(test, not(loom)))]
        claims.nr_claimed.fetch_add(1, Ordering::Relaxed);
        match swap_for_claimed(leaf.slot(position), seen) {
            Ok(()) => Ok(Self {
                claims,
                place: Some(Place::InLeaf(leaf, position)),
                before: seen,
            }),
            Err(Lost) => Err(leaf),
        }
    }

    /// Claims a slot of the caller's index, without a hold of its leaf, if it is still as `seen`, present.
    ///
    /// By I5 of the index the word of a slot with a page never comes back once the page is out. So if the swap
    /// succeeds, the page was there all along. The slot's reference to the leaf (C2) has kept the leaf; from now on only we
    /// can give this reference up (C1), so it keeps the leaf until the claim ends. If the swap fails it has changed nothing. If
    /// the leaf was taken out since the slot was loaded, the attempt may leave a page of zeros where memory was given back;
    /// that page is given back again when the leaf is taken out the next time.
    pub(crate) fn try_present(
        claims: &'s Claims<S>,
        word: &'s AtomicU64,
        seen: Slot,
    ) -> Option<Self> {
        debug_assert!(matches!(seen.state(), State::Present(_)));
        match swap_for_claimed(word, seen) {
            Ok(()) => Some(Self {
                claims,
                place: Some(Place::Present(word)),
                before: seen,
            }),
            Err(Lost) => None,
        }
    }

    /// Ends the claim of an empty slot: the page is in `frame`, and the caller's reference to it becomes
    /// the slot's.
    pub(crate) fn fill(mut self, frame: FrameNr) {
        debug_assert_eq!(self.before.state(), State::Empty);
        self.claims.notes.arrived(frame.get(), self.before.ghost());
        if let Some(Place::InLeaf(leaf, _)) = self.end(self.before.filled(frame)) {
            // C2: the claim's reference to the leaf becomes the slot's.
            leaf.reference.into_raw();
        }
    }

    /// Ends the claim of a present slot: the page is no longer in the cache. Returns the slot's
    /// reference to its frame.
    pub(crate) fn empty(mut self) -> Option<FrameRef<'s, S>> {
        let State::Present(frame) = self.before.state() else {
            return None;
        };
        self.end_empty(frame, None);
        // The slot's reference keeps the frame, so that it can be looked at.
        self.claims.pool.retire(frame);
        Some(raw::slots_reference(self.claims, frame))
    }

    /// Ends the claim of a present slot by evicting the page, if the storage has its bytes and there is no other
    /// reference to it. Its ghost stays behind.
    pub(crate) fn evict(mut self, ghost: Option<Ghost>) -> Option<UniqueFrame<'s, S>> {
        let State::Present(frame) = self.before.state() else {
            return None;
        };
        if !PageState::of(self.claims.pool.meta(frame)).may_go() {
            return None;
        }
        match raw::slots_reference(self.claims, frame).try_unique() {
            Ok(unique) => {
                // The frame is frozen and has no owner yet: the version moves before the frame can be reused.
                self.end_empty(frame, ghost);
                Some(unique)
            }
            Err(still_shared) => {
                // The slot keeps its reference; dropping the claim restores the slot.
                still_shared.into_raw();
                None
            }
        }
    }

    /// The frame of the page, if the slot has one.
    pub(crate) fn frame(&self) -> Option<FrameNr> {
        match self.before.state() {
            State::Present(frame) => Some(frame),
            State::Empty | State::Busy => None,
        }
    }

    /// Freezes the page's frame, if there is no other reference to it: its count is locked. The frame is to be given to
    /// [`rewrite`](Self::rewrite).
    #[inline(always)]
    pub(crate) fn freeze(&self) -> Option<UniqueFrame<'s, S>> {
        // C1: the reference frozen at a count of 1 is the slot's.
        let reference = raw::slots_reference(self.claims, self.frame()?);
        match reference.try_unique() {
            Ok(unique) => Some(unique),
            Err(still_shared) => {
                still_shared.into_raw();
                None
            }
        }
    }

    /// Ends the claim of a present slot whose bytes were changed in place: `unique` is the page's own
    /// frame, from [`freeze`](Self::freeze).
    #[inline(always)]
    pub(crate) fn rewrite(mut self, unique: UniqueFrame<'s, S>, state: PageState, lsn: u64) {
        let frame = unique.frame();
        debug_assert_eq!(self.frame(), Some(frame));
        self.publish(frame, unique, state, lsn);
        drop(self.end(self.before.rewritten()));
    }

    /// Ends the claim of a present slot whose page is in another frame now. Returns the slot's reference to
    /// the old frame.
    pub(crate) fn replace(
        mut self,
        unique: UniqueFrame<'s, S>,
        state: PageState,
        lsn: u64,
    ) -> Option<FrameRef<'s, S>> {
        let old = self.frame()?;
        let frame = self.publish(old, unique, state, lsn);
        self.claims.notes.moved(old.get(), frame.get());
        // A thread that waits for the lock of the page waits at the record of its old frame, and has to look again.
        PageState::CLEAN.store(self.claims.pool.meta(old));
        drop(self.end(self.before.moved(frame)));
        self.claims
            .waits
            .wake(PageState::word(self.claims.pool.meta(old)));
        // As in `empty`.
        self.claims.pool.retire(old);
        Some(raw::slots_reference(self.claims, old))
    }

    /// Ends the claim of a present slot whose page is in `unique` now, and unchanged. The caller has frozen the old
    /// frame.
    pub(crate) fn end_moved(mut self, unique: UniqueFrame<'s, S>, state: PageState, lsn: u64) {
        if let Some(old) = self.frame() {
            let frame = self.publish(old, unique, state, lsn);
            self.claims.notes.moved(old.get(), frame.get());
            drop(self.end(self.before.moved(frame)));
        }
    }

    /// Ends the claim of a present slot by moving the page to `to`; returns the block that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when another thread holds the page, or the page is of another size; the slot is then as it was.
    pub(crate) fn relocate(
        self,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let Some(frame) = self.frame() else {
            return Err(to);
        };
        let record = self.claims.pool.meta(frame);
        let state = PageState::of(record);
        // A frame that a slot names changes neither its kind nor its order.
        if state.is_locked() || record.kind().1 != to.order() {
            return Err(to);
        }
        let [_, lsn] = record.private();
        let Some(old) = self.freeze() else {
            return Err(to);
        };
        let bytes = to.bytes();
        bytes.copy_from_racy(0, old.bytes());
        self.end_moved(to, state, lsn);
        Ok(old)
    }

    /// Publishes a frame as the new one of a page in `old`, with the slot's reference.
    #[inline(always)]
    fn publish(
        &self,
        old: FrameNr,
        unique: UniqueFrame<'s, S>,
        state: PageState,
        lsn: u64,
    ) -> FrameNr {
        let place = self.claims.pool.meta(old).owner();
        publish::page(unique, place, [state.bits(), lsn], 1)
    }

    /// Ends the claim of a present slot whose page in `frame` goes.
    fn end_empty(&mut self, frame: FrameNr, ghost: Option<Ghost>) {
        let record = self.claims.pool.meta(frame);
        let (leaf, _) = record.owner();
        let place = self.end(self.before.emptied(ghost));
        // C2: the slot's reference to the leaf is now to be given up, besides our own if we have one. Until then the leaf
        // is the one that the page's record names, which was read while the frame was ours.
        if let Ok(leaf) = u32::try_from(leaf) {
            let slots = raw::leafs_reference(self.claims, FrameNr::new(leaf));
            match place {
                Some(Place::InLeaf(ours, _)) => ours.reference.drop_with(slots),
                _ => drop(slots),
            }
        }
    }

    /// Ends the claim of a present slot as if the page had been written, with the bytes that it has.
    #[cfg(loom)]
    pub(crate) fn touch(mut self) {
        drop(self.end(self.before.rewritten()));
    }

    /// Stores the slot's new word and wakes the threads that wait for it.
    #[inline(always)]
    fn end(&mut self, after: Slot) -> Option<Place<'s, S>> {
        let place = self.place.take()?;
        let word = place.word();
        if after.starts_over(self.before) {
            // L1.
            self.claims.lives.end(word);
        }
        // ORDERING: Release; publishes the page's bytes and the frame's record to threads that load the slot
        // (`FrameView::load`), and to the next claim. A restored slot is published anew for the same
        // reason: this store hides its publisher's.
        word.store(after.bits(), Ordering::Release);
        self.claims.waits.wake(word);
        Some(place)
    }
}

impl<S: RefScheme> Drop for Claim<'_, S> {
    fn drop(&mut self) {
        // The claim has not ended: the slot is as before it.
        drop(self.end(self.before));
    }
}
