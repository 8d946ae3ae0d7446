//! The claim: the one way to change a slot.
//!
//! Place. Fills, evictions, invalidations and the teardown of a mapping change slots, all of them here,
//! so that no change can forget to move the version or to wake who waits.
//!
//! Protocol.
//! 1. Get hold of the leaf ([`Leaf`]), look at the slot, and swap it for the same word with `busy`
//!    set. Who succeeds has the claim; nobody else can change the slot until the claim ends. A slot with a page
//!    can be claimed without a hold of its leaf ([`Claim::try_present`]): it has one itself.
//! 2. Do what is to be done: read the page into a new frame, or freeze the frame.
//! 3. End the claim: [`Claim::fill`], [`Claim::empty`], or drop it, which restores the slot.
//!
//! Invariants.
//! - C1: the reference to a page's frame that comes with a present slot is dropped or passed on only by
//!   the holder of the slot's claim. So a claim holder who freezes the frame at a count of 1 has
//!   frozen the slot's own reference, and no `put` can be on its way to the frozen word.
//! - C2: a claimed slot holds a reference to its leaf, as a present one does.
//! - C3: nobody who holds a claim waits for another to end. So claims cannot deadlock.
//!
//! Readers. An optimistic reader that saw the slot before the claim and checks it after sees `busy` or a
//! new version. A restored slot has its old version: nothing was changed, and a reader in flight is right.
//!
//! Proved by `loom_read_vs_evict_and_reuse`, `loom_pin_vs_evict`, `loom_evict_vs_evict`.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameKind, FrameNr, FrameRef, UniqueFrame};
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::claims::Claims;
use crate::index::leaf::Leaf;
use crate::index::raw;

/// The slot has changed, or is claimed by someone else.
struct Lost;

/// Step 1 of the protocol.
#[inline]
fn swap_for_claimed(word: &AtomicU64, seen: Slot) -> Result<(), Lost> {
    debug_assert!(!seen.is_busy());
    // ORDERING: Acquire on success; pairs with the release that ended the last claim, so that the
    // frame's record is seen as its publisher left it. Nothing before the claim needs to be seen by
    // who sees it: bytes are written behind a fence of their own (`UniqueFrame::bytes`).
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

/// Where a claimed slot is, and what keeps its leaf.
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
    /// Claims the slot at `position` of `leaf` if it still is as it was `seen`, empty or present.
    ///
    /// # Errors
    ///
    /// The leaf, when the slot has changed or is claimed by someone else.
    pub(crate) fn try_new(
        claims: &'s Claims<S>,
        leaf: Leaf<'s, S>,
        position: usize,
        seen: Slot,
    ) -> Result<Self, Leaf<'s, S>> {
        match swap_for_claimed(leaf.slot(position), seen) {
            Ok(()) => Ok(Self {
                claims,
                place: Some(Place::InLeaf(leaf, position)),
                before: seen,
            }),
            Err(Lost) => Err(leaf),
        }
    }

    /// Claims a slot of the caller's index, without a hold of its leaf, if it still is as it was `seen`, present.
    ///
    /// By I5 of the index the word of a slot with a page does not come again once the page is out. So if the swap
    /// succeeds, the page was there all along, and the slot's reference to the leaf (C2), which nobody but us can give
    /// up from now on (C1), has kept the leaf and keeps it until the claim ends. If it fails it has changed nothing; if
    /// the leaf was taken out since the look, the attempt may leave a page of zeros where memory was given back, which
    /// is given back again when the leaf is taken out the next time.
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

    /// Ends the claim of an empty slot: the page is in `frame`, and the caller's reference to it is
    /// the slot's.
    pub(crate) fn fill(mut self, frame: FrameNr) {
        debug_assert_eq!(self.before.state(), State::Empty);
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
        self.end_empty(frame);
        Some(raw::slots_reference(self.claims, frame))
    }

    /// Ends the claim of a present slot by evicting the page, if the storage has its bytes and nobody else
    /// has a reference to it.
    pub(crate) fn evict(mut self) -> Option<UniqueFrame<'s, S>> {
        let State::Present(frame) = self.before.state() else {
            return None;
        };
        if !PageState::of(self.claims.pool.meta(frame)).may_go() {
            return None;
        }
        match raw::slots_reference(self.claims, frame).try_unique() {
            Ok(unique) => {
                // The frame is frozen and not yet anyone's: the version moves before it can be reused.
                self.end_empty(frame);
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

    /// The page's frame alone, its count locked, if nobody else has a reference to it. It is to be given to
    /// [`rewrite`](Self::rewrite).
    pub(crate) fn freeze(&self) -> Option<UniqueFrame<'s, S>> {
        // C1: what is frozen at a count of 1 is the slot's reference.
        let reference = raw::slots_reference(self.claims, self.frame()?);
        match reference.try_unique() {
            Ok(unique) => Some(unique),
            Err(still_shared) => {
                still_shared.into_raw();
                None
            }
        }
    }

    /// Ends the claim of a present slot whose bytes were changed where they are: `unique` is the page's own
    /// frame, from [`freeze`](Self::freeze).
    pub(crate) fn rewrite(mut self, unique: UniqueFrame<'s, S>, state: PageState, lsn: u64) {
        let frame = unique.frame();
        debug_assert_eq!(self.frame(), Some(frame));
        self.publish(frame, unique, state, lsn);
        drop(self.end(self.before.rewritten()));
    }

    /// Ends the claim of a present slot whose page is in another frame now. Returns the slot's reference to
    /// the frame that it was in.
    pub(crate) fn replace(
        mut self,
        unique: UniqueFrame<'s, S>,
        state: PageState,
        lsn: u64,
    ) -> Option<FrameRef<'s, S>> {
        let old = self.frame()?;
        let frame = self.publish(old, unique, state, lsn);
        // Who waits for the lock of the page waits at its old frame's record, and is to look again.
        PageState::CLEAN.store(self.claims.pool.meta(old));
        drop(self.end(self.before.moved(frame)));
        self.claims.waits.wake(self.claims.pool.meta(old).state());
        Some(raw::slots_reference(self.claims, old))
    }

    /// Ends the claim of a present slot whose page is in `unique` now, and unchanged. The frame that it was in is frozen,
    /// by the caller.
    pub(crate) fn end_moved(mut self, unique: UniqueFrame<'s, S>, state: PageState, lsn: u64) {
        if let Some(old) = self.frame() {
            let frame = self.publish(old, unique, state, lsn);
            drop(self.end(self.before.moved(frame)));
        }
    }

    /// Ends the claim of a present slot by moving the page to `to`; returns the block that it was in.
    ///
    /// # Errors
    ///
    /// `to`, when somebody holds the page, or it is of another size; the slot is as it was then.
    pub(crate) fn relocate(
        self,
        to: UniqueFrame<'s, S>,
    ) -> Result<UniqueFrame<'s, S>, UniqueFrame<'s, S>> {
        let Some(frame) = self.frame() else {
            return Err(to);
        };
        let record = self.claims.pool.meta(frame);
        let state = PageState::of(record);
        // The kind of a frame that a slot names does not change, nor does the order.
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

    /// Publishes a frame as that of a page which is in `old`, with the slot's reference.
    fn publish(
        &self,
        old: FrameNr,
        unique: UniqueFrame<'s, S>,
        state: PageState,
        lsn: u64,
    ) -> FrameNr {
        let place = self.claims.pool.meta(old).owner();
        unique.publish_with(FrameKind::Page, place, [state.bits(), lsn], 1)
    }

    /// Ends the claim of a present slot whose page in `frame` goes.
    fn end_empty(&mut self, frame: FrameNr) {
        let (leaf, _) = self.claims.pool.meta(frame).owner();
        drop(self.end(self.before.emptied()));
        // C2: the slot's reference to the leaf is due, besides our own if we have one. Until it is given up the leaf
        // is the one that the page's record names, which was read while the frame was ours.
        if let Ok(leaf) = u32::try_from(leaf) {
            drop(raw::leafs_reference(self.claims, FrameNr::new(leaf)));
        }
    }

    /// Stores the slot's new word and wakes who waits for it.
    fn end(&mut self, after: Slot) -> Option<Place<'s, S>> {
        let place = self.place.take()?;
        let word = place.word();
        // ORDERING: Release; publishes the page's bytes and the frame's record to who loads the slot
        // (`FrameView::load`), and to the next claim. A restored slot is published anew for the same
        // reason: this store hides its publisher's.
        word.store(after.bits(), Ordering::Release);
        self.claims.waits.wake(word);
        Some(place)
    }
}

impl<S: RefScheme> Drop for Claim<'_, S> {
    fn drop(&mut self) {
        // Not ended: the slot is as it was before.
        drop(self.end(self.before));
    }
}
