//! The claim: the exclusive right to change one slot.
//!
//! Slots change only by claims, which store a new version or restore the word, and wake waiting
//! threads. Exceptions: the accessed bit and the discard of a ghost need only a compare-and-swap,
//! and the index stores to the slots of a leaf that it installs or removes ([`super::file_index`]).
//!
//! Protocol.
//! 1. Acquire a leaf handle ([`Leaf`]), load the slot, and set `busy` and clear `hot` by a
//!    compare-and-swap. If it succeeds, no other thread can change the slot until the claim ends.
//!    A present slot needs no leaf handle ([`Claim::try_present`]): it has a reference to its leaf.
//! 2. Do the work: read the page into a new frame, or freeze the frame.
//! 3. End the claim with a method that consumes it, such as [`Claim::fill`] or [`Claim::empty`], or
//!    drop it, which restores the slot.
//!
//! Invariants.
//! - C1: A present slot owns one reference to its frame, and only the holder of the claim may drop
//!   it or hand it over. So if the holder freezes the frame at a count of 1, that one is the
//!   slot's, and no `put` of another thread can be in flight.
//! - C2: A claimed slot holds a reference to its leaf, as a present slot does.
//! - C3: The holder of a claim never waits for another claim, so claims cannot deadlock. To
//!   allocate a frame (`supply::reclaim`), it may wait for transfers, which wait for no claim.
//!
//! Readers. An optimistic reader that loads the slot before the claim and reloads it afterwards
//! sees `busy`, a new version, or, if nothing was changed, the old word.
//!
//! Verified by `loom_read_vs_evict_and_reuse`, `loom_pin_vs_evict`, `loom_evict_vs_evict`.

use std::mem::offset_of;
use std::sync::Arc;

use pagewell_frame::{FRAME_WORDS, FrameKind, FrameNr, FramePool, FrameRef, UniqueFrame};
use pagewell_policy::{Ghost, Notes};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::ledger::{self, Resource};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{Padded, is_apart};

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::lives::Lives;
use crate::index::raw;

/// The slot has changed since it was loaded, or another thread has claimed it.
struct Lost;

#[inline]
fn swap_for_claimed(word: &AtomicU64, seen: Slot) -> Result<(), Lost> {
    debug_assert!(!seen.is_busy());
    // ORDERING: Acquire; pairs with the release store that ended the previous claim, so that the
    // holder sees the frame metadata as published. No release: the claim publishes nothing, and
    // page bytes are written after a fence (`UniqueFrame::bytes`). Relaxed on failure.
    let claimed = word.compare_exchange(
        seen.bits(),
        seen.claimed().bits(),
        Ordering::Acquire,
        Ordering::Relaxed,
    );
    claimed.map(|_| ()).map_err(|_| Lost)
}

#[derive(Debug)]
pub(crate) struct Claim<'s> {
    claims: &'s Claims,
    place: Option<Place<'s>>,
    before: Slot,
}

#[derive(Debug)]
enum Place<'s> {
    InLeaf(Leaf<'s>, usize),
    Present(&'s AtomicU64),
}

impl Place<'_> {
    #[inline]
    fn word(&self) -> &AtomicU64 {
        match self {
            Self::InLeaf(leaf, position) => leaf.slot(*position),
            Self::Present(word) => word,
        }
    }
}

impl<'s> Claim<'s> {
    /// Claims the slot at `position` of `leaf` if it still equals `seen`. Otherwise returns `leaf`.
    pub(crate) fn try_new(
        claims: &'s Claims,
        leaf: Leaf<'s>,
        position: usize,
        seen: Slot,
    ) -> Result<Self, Leaf<'s>> {
        #[cfg(test)]
        claims.nr_claimed.fetch_add(1, Ordering::Relaxed);
        match swap_for_claimed(leaf.slot(position), seen) {
            Ok(()) => Ok(Self::held(claims, Place::InLeaf(leaf, position), seen)),
            Err(Lost) => Err(leaf),
        }
    }

    /// Claims a present slot without a leaf handle, if it still equals `seen`.
    ///
    /// The word of a present slot does not repeat after a removal of the page within these few
    /// steps (I5 of the index). So if the swap succeeds, the page was present all along, and the
    /// slot's reference has kept the leaf in use (C2). If the leaf was removed, the failed swap may
    /// fault in a page of zeros, which the leaf's next removal discards.
    pub(crate) fn try_present(claims: &'s Claims, word: &'s AtomicU64, seen: Slot) -> Option<Self> {
        debug_assert!(matches!(seen.state(), State::Present(_)));
        match swap_for_claimed(word, seen) {
            Ok(()) => Some(Self::held(claims, Place::Present(word), seen)),
            Err(Lost) => None,
        }
    }

    #[inline(always)]
    fn held(claims: &'s Claims, place: Place<'s>, before: Slot) -> Self {
        ledger::acquired(Resource::SlotClaim, 1);
        Self {
            claims,
            place: Some(place),
            before,
        }
    }

    /// Ends the claim with the page in `frame`. The caller's reference becomes the slot's.
    pub(crate) fn fill(mut self, frame: FrameNr) {
        debug_assert_eq!(self.before.state(), State::Empty);
        self.claims.notes.arrived(frame.get(), self.before.ghost());
        if let Some(Place::InLeaf(leaf, _)) = self.end(self.before.filled(frame)) {
            // C2: the claim's reference to the leaf becomes the slot's.
            leaf.reference.into_raw();
        }
    }

    /// Ends the claim of a present slot by removing its page from the cache. Returns the slot's
    /// reference to the frame, or `None` if the slot has no page.
    pub(crate) fn empty(mut self) -> Option<FrameRef<'s>> {
        let State::Present(frame) = self.before.state() else {
            return None;
        };
        self.end_empty(frame, None);
        // The reference returned below keeps the frame, so `retire` may access its metadata.
        self.claims.pool.retire(frame);
        Some(raw::slots_reference(&self.claims.pool, frame))
    }

    /// Ends the claim by evicting the page, and leaves `ghost` in the slot. Returns `None`, with
    /// the slot restored, if the page is not clean, is locked, or has another reference.
    pub(crate) fn evict(mut self, ghost: Option<Ghost>) -> Option<UniqueFrame<'s>> {
        let State::Present(frame) = self.before.state() else {
            return None;
        };
        if !PageState::of(self.claims.pool.meta(frame)).may_go() {
            return None;
        }
        match raw::slots_reference(&self.claims.pool, frame).try_unique() {
            Ok(unique) => {
                // The version changes while the frame is frozen, that is, before it can be reused.
                self.end_empty(frame, ghost);
                Some(unique)
            }
            Err(still_shared) => {
                still_shared.into_raw();
                None
            }
        }
    }

    pub(crate) fn frame(&self) -> Option<FrameNr> {
        match self.before.state() {
            State::Present(frame) => Some(frame),
            State::Empty | State::Busy => None,
        }
    }

    /// Freezes the page's frame (locks its count) if the slot's reference is the only one. The
    /// caller passes the handle to [`rewrite`](Self::rewrite), or drops it after
    /// [`end_moved`](Self::end_moved); an earlier drop frees a frame that the slot still names.
    #[inline(always)]
    pub(crate) fn freeze(&self) -> Option<UniqueFrame<'s>> {
        let reference = raw::slots_reference(&self.claims.pool, self.frame()?);
        match reference.try_unique() {
            Ok(unique) => Some(unique),
            Err(still_shared) => {
                still_shared.into_raw();
                None
            }
        }
    }

    /// Ends the claim after a change in place. `unique` is from [`freeze`](Self::freeze).
    #[inline(always)]
    pub(crate) fn rewrite(mut self, unique: UniqueFrame<'s>, state: PageState, lsn: u64) {
        let frame = unique.frame();
        debug_assert_eq!(self.frame(), Some(frame));
        self.publish(frame, unique, state, lsn);
        drop(self.end(self.before.rewritten()));
    }

    /// Ends the claim of a present slot with its page in the new frame `unique`. Returns the slot's
    /// reference to the old frame, or `None`, with the slot restored, if the slot has no page.
    pub(crate) fn replace(
        mut self,
        unique: UniqueFrame<'s>,
        state: PageState,
        lsn: u64,
    ) -> Option<FrameRef<'s>> {
        let old = self.frame()?;
        let frame = self.publish(old, unique, state, lsn);
        self.claims.notes.moved(old.get(), frame.get());
        // Threads that wait for the page lock sleep on this word, and must look the page up again.
        PageState::CLEAN.store(self.claims.pool.meta(old));
        drop(self.end(self.before.moved(frame)));
        self.claims
            .waits
            .wake(PageState::word(self.claims.pool.meta(old)));
        self.claims.pool.retire(old);
        Some(raw::slots_reference(&self.claims.pool, old))
    }

    /// Ends the claim of a page copied to `unique`. The caller has frozen the old frame.
    pub(crate) fn end_moved(mut self, unique: UniqueFrame<'s>, state: PageState, lsn: u64) {
        if let Some(old) = self.frame() {
            let frame = self.publish(old, unique, state, lsn);
            self.claims.notes.moved(old.get(), frame.get());
            drop(self.end(self.before.moved(frame)));
        }
    }

    /// Moves the page to `to`, and returns the old block. Returns `to`, with the slot restored, if
    /// the slot has no page, or its page is locked, has another reference, or has another order.
    pub(crate) fn relocate(self, to: UniqueFrame<'s>) -> Result<UniqueFrame<'s>, UniqueFrame<'s>> {
        let Some(frame) = self.frame() else {
            return Err(to);
        };
        let record = self.claims.pool.meta(frame);
        let state = PageState::of(record);
        // The kind and the order of a frame do not change while a slot names it.
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

    /// Publishes `unique` for the page that `old` holds, with one reference, the slot's.
    #[inline(always)]
    fn publish(
        &self,
        old: FrameNr,
        unique: UniqueFrame<'s>,
        state: PageState,
        lsn: u64,
    ) -> FrameNr {
        let place = self.claims.pool.meta(old).owner();
        raw::publish_page(unique, place, [state.bits(), lsn], 1)
    }

    fn end_empty(&mut self, frame: FrameNr, ghost: Option<Ghost>) {
        let record = self.claims.pool.meta(frame);
        let (leaf, _) = record.owner();
        let place = self.end(self.before.emptied(ghost));
        // C2: drop the slot's reference to the leaf, and the claim's own if it has one. `leaf`,
        // which the page's metadata named, stays in use until this drop.
        if let Ok(leaf) = u32::try_from(leaf) {
            let slots = raw::leafs_reference(&self.claims.pool, FrameNr::new(leaf));
            match place {
                Some(Place::InLeaf(ours, _)) => ours.reference.drop_with(slots),
                _ => drop(slots),
            }
        }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn touch(mut self) {
        drop(self.end(self.before.rewritten()));
    }

    /// Stores the new word and wakes its waiters. Returns `None` if the claim has ended before.
    #[inline(always)]
    fn end(&mut self, after: Slot) -> Option<Place<'s>> {
        let place = self.place.take()?;
        ledger::released(Resource::SlotClaim, 1);
        let word = place.word();
        if after.starts_over(self.before) {
            // L1 of `index::lives`: the version is about to start over.
            self.claims.lives.end(word);
        }
        // ORDERING: Release; publishes the page's bytes and the frame metadata to threads that load
        // the slot (`Index::look`), and to the next claim. A restored slot needs the release too,
        // because this store replaces the one that published its word.
        word.store(after.bits(), Ordering::Release);
        self.claims.waits.wake(word);
        Some(place)
    }
}

impl Drop for Claim<'_> {
    #[inline]
    fn drop(&mut self) {
        drop(self.end(self.before));
    }
}

/// Leaf handle: a counted reference that keeps the leaf in use.
#[derive(Debug)]
pub(crate) struct Leaf<'s> {
    pub(crate) reference: FrameRef<'s>,
}

impl<'s> Leaf<'s> {
    /// Returns `None` if the frame is not a leaf.
    pub(crate) fn from_reference(reference: FrameRef<'s>) -> Option<Self> {
        // The kind of a referenced frame does not change.
        let (kind, _) = reference.meta().kind();
        (kind == FrameKind::Leaf).then_some(Self { reference })
    }

    pub(crate) fn slot(&self, slot: usize) -> &AtomicU64 {
        &raw::leaf_slots(&self.reference)[slot]
    }

    pub(crate) const fn slot_of(page: PageNr) -> usize {
        (page % FRAME_WORDS as u64) as usize
    }

    pub(crate) const fn of(page: PageNr) -> usize {
        (page / FRAME_WORDS as u64) as usize
    }

    pub(crate) const fn first_page(leaf: usize) -> PageNr {
        leaf as u64 * FRAME_WORDS as u64
    }

    pub(crate) fn freeze_with_roots(self) -> Result<UniqueFrame<'s>, Self> {
        raw::freeze_with_roots(self.reference).map_err(|reference| Self { reference })
    }
}

/// State of the cache that every claim uses.
#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) pool: FramePool,
    pub(crate) waits: WaitTable,
    /// Events for the eviction policy: filled and moved frames. The policy CLOCK needs none.
    pub(crate) notes: Notes,
    pub(crate) lives: Arc<Lives>,
    version_floor: Padded<AtomicU64>,
    #[cfg(test)]
    pub(crate) nr_claimed: std::sync::atomic::AtomicU64,
}

// Readers load `pool`; the end of a claim loads `waits`. Removals of leaves write `version_floor`,
// so it has cache lines of its own.
const _: () = {
    type C = Claims;
    let loaded = [
        (offset_of!(C, pool), size_of::<FramePool>()),
        (offset_of!(C, waits), size_of::<WaitTable>()),
        (offset_of!(C, notes), size_of::<Notes>()),
        (offset_of!(C, lives), size_of::<Arc<Lives>>()),
    ];
    let mut nr = 0;
    while nr < loaded.len() {
        let (start, len) = loaded[nr];
        assert!(is_apart::<C>(start, len, offset_of!(C, version_floor)));
        nr += 1;
    }
};

impl Claims {
    pub(crate) fn new(pool: FramePool, notes: Notes, waits: WaitTable) -> Self {
        Self {
            pool,
            waits,
            notes,
            lives: Arc::default(),
            version_floor: Padded(AtomicU64::new(0)),
            #[cfg(test)]
            nr_claimed: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Returns the minimum slot version: one above the versions of all slots in removed leaves.
    pub(crate) fn version_floor(&self) -> u64 {
        // ORDERING: Relaxed; only the last removal of the same leaf matters, which raised this
        // value before it released the root entry that the creating thread has acquired.
        self.version_floor.load(Ordering::Relaxed)
    }

    pub(crate) fn raise_version_floor(&self, version: u64) {
        // ORDERING: Relaxed; see `version_floor`.
        self.version_floor.fetch_max(version, Ordering::Relaxed);
    }
}
