//! The slots of all threads: announcing in them, looking through them, taking them over.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::Ordering;
use pagewell_sync::shard::Identity;

use super::board::{Board, Exit};
use super::slot::{Block, Slot, Word};
use crate::words::FrameNr;

/// The slots of all threads.
#[derive(Debug)]
pub(super) struct Slots {
    board: Board,
    pub(super) fences: Fences,
}

/// What a thread has found in its block that the one before it has left.
#[derive(Debug)]
pub(super) struct TakenOver {
    /// So many blocks are in use at least.
    pub(super) nr_used: usize,
    /// So many announcements that were handed over to the count are of holders that borrow nothing.
    pub(super) nr_owned: usize,
}

/// The numbers of a block and of a slot in it.
pub(super) type Place = (usize, usize);

/// What a look saw: which slots announce a frame.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// In ascending order of frames.
    seen: Vec<(FrameNr, Place)>,
    /// Those of holders that borrow nothing.
    owned: Vec<Place>,
}

impl Scan {
    /// Where `frame` is announced.
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

    /// Where announcements are whose holders borrow nothing.
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

    /// Where the holder of an announcement that borrows nothing gets at the pool, if there still is one, when it has ended it (I6).
    #[inline(always)]
    pub(super) fn exit(&self) -> Exit {
        self.board.exit()
    }

    /// Whether there is a block for `me`.
    pub(super) fn has_block(&self, me: Identity) -> bool {
        (me.number() as usize) < self.board.blocks().len()
    }

    /// The block of `me`, if it is its owner already.
    #[inline(always)]
    pub(super) fn own(&self, me: Identity) -> Option<&Block> {
        let block = self.board.blocks().get(me.number() as usize)?;
        block.is_of(me.serial()).then_some(block)
    }

    /// Steps 1 and 2: announces `word`, which is of this thread, `me`.
    #[inline(always)]
    pub(super) fn announce(&self, me: Identity, word: Word) -> Option<&Slot> {
        let block = self.own(me)?;
        // The first that is empty: nothing that is stored depends on what is loaded, so the processor need not wait for what was stored there last.
        // ORDERING: Acquire, E2: another thread may have ended what was announced there, and the next store hides that from a look.
        let mut slots = block.slots.iter();
        let slot = slots.find(|slot| slot.word.load(Ordering::Acquire) == 0)?;
        // ORDERING: Release, E2: a look that loads this word, and not the zero before it, sees what was done under the word before that. (The
        // fence that follows orders it before the load of the mark: E1.)
        slot.word.store(word.0, Ordering::Release);
        self.fences.light();
        Some(slot)
    }

    /// Step c: what is announced in the first `nr_used` blocks.
    pub(super) fn scan(&self, nr_used: usize) -> Scan {
        let (mut seen, mut owned) = (Vec::new(), Vec::new());
        for (number, block) in self.board.blocks().iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                // ORDERING: Acquire, E2: if the announcement has ended, what was done with the frame before that is seen.
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

    /// Says that of all slots those at `places` are wanted, where those at `wanted` were until now; whether any was not before. With the lock.
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
        // ORDERING: Relaxed; only the holder of the lock stores to it. What is added is ordered before the next loads of the slots by the heavy fence
        // of step e (E3).
        slots[at].is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Makes `me` the owner of its block, with the lock: hands over what the owner before it has left, by `hand_over`, which takes a
    /// counted reference to a frame, and `take_back`, which puts it if it was not needed. None if there is no block for it.
    pub(super) fn take_over(
        &self,
        me: Identity,
        hand_over: impl Fn(FrameNr),
        take_back: impl Fn(FrameNr),
    ) -> Option<TakenOver> {
        let block = self.board.blocks().get(me.number() as usize)?;
        let mut nr_owned = 0;
        for slot in &block.slots {
            // ORDERING: Acquire; what the thread before us did with the frame comes before our reference to it. (Its number was handed on
            // through a lock too.)
            if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                hand_over(word.frame());
                if slot.take_out(word) {
                    nr_owned += usize::from(word.is_owned());
                } else {
                    take_back(word.frame());
                }
            }
        }
        // ORDERING: Relaxed; the thread itself is the only one that needs to see it.
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
