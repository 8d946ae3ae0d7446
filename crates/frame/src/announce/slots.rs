//! Hazard slots of all threads: publishing, scanning, transferring.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::Ordering;
use pagewell_sync::shard::Identity;

use super::board::{Board, Exit};
use super::slot::{Block, Slot, Word};
use crate::words::FrameNr;

#[derive(Debug)]
pub(super) struct Slots {
    board: Board,
    pub(super) fences: Fences,
}

/// Result of taking over a block from an earlier thread.
#[derive(Debug)]
pub(super) struct TakenOver {
    /// Number of blocks that are in use at least.
    pub(super) nr_used: usize,
    /// Number of owned hazards that were transferred to the count.
    pub(super) nr_owned: usize,
}

pub(super) type Place = (usize, usize);

/// Hazards that a scan has loaded.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// In ascending order of frames.
    seen: Vec<(FrameNr, Place)>,
    /// Slots with owned hazards.
    owned: Vec<Place>,
}

impl Scan {
    /// Slots in which `frame` is published.
    pub(super) fn places(&self, frame: FrameNr) -> impl Iterator<Item = Place> {
        let first = self
            .seen
            .partition_point(|(other, _)| other.get() < frame.get());
        let of_frame = self.seen[first..].iter();
        of_frame
            .take_while(move |(other, _)| *other == frame)
            .map(|(_, place)| *place)
    }

    pub(super) fn has(&self, frame: FrameNr) -> bool {
        self.places(frame).next().is_some()
    }

    pub(super) fn owned(&self) -> &[Place] {
        &self.owned
    }
}

impl Slots {
    pub(super) fn new(nr_threads: usize, fences: Fences) -> Self {
        Self {
            board: Board::take(nr_threads),
            fences,
        }
    }

    /// Lets an owned hazard reach the pool after its end, if the pool still exists (I6).
    #[inline(always)]
    pub(super) fn exit(&self) -> Exit {
        self.board.exit()
    }

    pub(super) fn has_block(&self, me: Identity) -> bool {
        (me.number() as usize) < self.board.blocks().len()
    }

    /// Returns the block of `me`, if `me` already owns it.
    #[inline(always)]
    pub(super) fn own(&self, me: Identity) -> Option<&Block> {
        let block = self.board.blocks().get(me.number() as usize)?;
        block.is_of(me.serial()).then_some(block)
    }

    /// Steps 1 and 2: publishes `word` of this thread, `me`, if it has a block and an empty slot.
    #[inline(always)]
    pub(super) fn announce(&self, me: Identity, word: Word) -> Option<&Slot> {
        let block = self.own(me)?;
        // Takes the first empty slot. The stored value does not depend on the loaded one, so the
        // processor need not wait for the last store to the slot.
        // ORDERING: Acquire, E2: another thread may have ended a hazard in the slot, and the next
        // store hides that from a scan.
        let mut slots = block.slots.iter();
        let slot = slots.find(|slot| slot.word.load(Ordering::Acquire) == 0)?;
        // ORDERING: Release, E2: a scan that loads this word, not the zero before it, sees the
        // accesses under the previous word. (The fence orders it before the protection's load: E1.)
        slot.word.store(word.0, Ordering::Release);
        self.fences.light();
        Some(slot)
    }

    /// Step c: loads the hazards in the first `nr_used` blocks.
    pub(super) fn scan(&self, nr_used: usize) -> Scan {
        let (mut seen, mut owned) = (Vec::new(), Vec::new());
        for (number, block) in self.board.blocks().iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                // ORDERING: Acquire, E2: accesses under a hazard that has ended are visible.
                if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                    seen.push((word.frame(), (number, at)));
                    if word.is_owned() {
                        owned.push((number, at));
                    }
                }
            }
        }
        seen.sort_unstable_by_key(|(frame, _)| frame.get());
        Scan { seen, owned }
    }

    /// Makes `places` the set of awaited slots, instead of `wanted`. Returns whether any slot is
    /// newly awaited. The caller holds the lock.
    pub(super) fn want(&self, wanted: &mut Vec<Place>, places: &[Place]) -> bool {
        for place in wanted.iter().filter(|place| !places.contains(place)) {
            self.set_wanted(*place, false);
        }
        let mut has_more = false;
        for place in places.iter().filter(|place| !wanted.contains(place)) {
            self.set_wanted(*place, true);
            has_more = true;
        }
        places.clone_into(wanted);
        has_more
    }

    fn set_wanted(&self, (number, at): Place, is_wanted: bool) {
        let slots = &self.board.blocks()[number].slots;
        // ORDERING: Relaxed; stored only under the lock. The heavy fence of step e orders added
        // slots before the next loads of the slots (E3).
        slots[at].is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Makes `me` the owner of its block, if any, under the lock, and transfers the previous
    /// owner's hazards. `hand_over` acquires a counted reference to a frame; `take_back` puts it.
    pub(super) fn take_over(
        &self,
        me: Identity,
        hand_over: impl Fn(FrameNr),
        take_back: impl Fn(FrameNr),
    ) -> Option<TakenOver> {
        let block = self.board.blocks().get(me.number() as usize)?;
        let mut nr_owned = 0;
        for slot in &block.slots {
            // ORDERING: Acquire; accesses of the previous thread happen before this reference to
            // the frame. (Its number was also passed on through a lock.)
            if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                hand_over(word.frame());
                if slot.take_out(word) {
                    nr_owned += usize::from(word.is_owned());
                } else {
                    take_back(word.frame());
                }
            }
        }
        // ORDERING: Relaxed; only this thread needs to see the store.
        block.owner.store(me.serial(), Ordering::Relaxed);
        Some(TakenOver {
            nr_used: me.number() as usize + 1,
            nr_owned,
        })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.board.give_back();
    }
}
