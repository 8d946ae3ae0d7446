//! Hazard slots of all threads: publication, scan and transfer of hazards.

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

#[derive(Debug)]
pub(super) struct TakenOver {
    /// Index of the block plus 1: a lower bound of the number of blocks to scan.
    pub(super) nr_used: usize,
    /// Number of owned hazards that were transferred to the count.
    pub(super) nr_owned: usize,
}

pub(super) type Place = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Published frames with their slots, in ascending order.
    seen: Vec<(FrameNr, Place)>,
    owned: Vec<Place>,
}

impl Scan {
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

    #[inline(always)]
    pub(super) fn exit(&self) -> Exit {
        self.board.exit()
    }

    pub(super) fn has_block(&self, me: Identity) -> bool {
        (me.number() as usize) < self.board.blocks().len()
    }

    #[inline(always)]
    pub(super) fn own(&self, me: Identity) -> Option<&Block> {
        let block = self.board.blocks().get(me.number() as usize)?;
        block.is_of(me.serial()).then_some(block)
    }

    /// Executes steps 1 and 2. Returns `None` if the thread owns no block or has no empty slot.
    #[inline(always)]
    pub(super) fn announce(&self, me: Identity, word: Word) -> Option<&Slot> {
        let block = self.own(me)?;
        // The stored value does not depend on the load, so the processor need not wait for it.
        // ORDERING: Acquire, E2: another thread may have ended a hazard in the slot, and the store
        // below hides that thread's zero from a scan.
        let mut slots = block.slots.iter();
        let slot = slots.find(|slot| slot.word.load(Ordering::Acquire) == 0)?;
        // ORDERING: Release, E2: a scan that loads this word, not the zero before it, sees the
        // accesses under the previous word. (The light fence is for E1.)
        slot.word.store(word.0, Ordering::Release);
        self.fences.light();
        Some(slot)
    }

    /// Executes step c, for the first `nr_used` blocks.
    pub(super) fn scan(&self, nr_used: usize) -> Scan {
        let (mut seen, mut owned) = (Vec::new(), Vec::new());
        for (number, block) in self.board.blocks().iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                // ORDERING: Acquire, E2, for accesses under hazards that are seen to have ended.
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

    /// Makes `places` the awaited slots, which `wanted` lists, under the lock. Returns `true` if
    /// any slot is newly awaited.
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
        // ORDERING: Relaxed; stored only under the lock. The heavy fence of step e orders this
        // store before the loads of step f (E3).
        slots[at].is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Makes thread `me` the owner of its block, and transfers the previous owner's hazards, under
    /// the lock. `hand_over` acquires a counted reference, and `take_back` puts it again.
    pub(super) fn take_over(
        &self,
        me: Identity,
        hand_over: impl Fn(FrameNr),
        take_back: impl Fn(FrameNr),
    ) -> Option<TakenOver> {
        let block = self.board.blocks().get(me.number() as usize)?;
        let mut nr_owned = 0;
        for slot in &block.slots {
            // ORDERING: Acquire; accesses of the previous thread happen before this reference.
            if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                hand_over(word.frame());
                if slot.take_out(word) {
                    nr_owned += usize::from(word.is_owned());
                } else {
                    take_back(word.frame());
                }
            }
        }
        // ORDERING: Relaxed; only this thread relies on the store.
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
