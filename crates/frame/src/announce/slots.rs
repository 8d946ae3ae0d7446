//! The slots in which threads announce, in lines of their own.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use pagewell_sync::shard::{Identity, LINES, Padded, own_identity};

use super::board::{Board, Exit};
use super::scores::Scores;
use crate::words::{FRAME_NR_BITS, FrameNr};

/// How many references a thread can have announced at once.
pub(super) const NR_SLOTS: usize = if cfg!(loom) { 2 } else { 15 };

/// An announcement: the frame, whether its holder borrows nothing of the pool, and the serial of the thread that has made it. Never zero, as
/// no serial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// The bit of a [`Word`] that says that its holder borrows nothing of the pool, and that the pool is kept for it.
const OWNED: u64 = 1 << 31;

const _: () = assert!(FRAME_NR_BITS < 31);

impl Word {
    #[inline(always)]
    pub(crate) const fn new(frame: FrameNr, serial: u32) -> Self {
        Self((serial as u64) << u32::BITS | frame.get() as u64)
    }

    /// As [`new`](Self::new), of a holder that borrows nothing.
    #[inline(always)]
    pub(crate) const fn owned(frame: FrameNr, serial: u32) -> Self {
        Self(Self::new(frame, serial).0 | OWNED)
    }

    const fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }

    /// Of a slot that is not empty.
    fn of(bits: u64) -> Option<Self> {
        (bits != 0).then_some(Self(bits))
    }

    #[inline(always)]
    pub(crate) const fn frame(self) -> FrameNr {
        FrameNr::of_bits(self.0)
    }

    #[inline(always)]
    const fn serial(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }
}

/// A place for one announcement.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The [`Word`], or zero (I3).
    word: AtomicU64,
    /// Whether the end of what is announced is waited for: stored to with the lock.
    is_wanted: AtomicBool,
}

/// The outcome of ending an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    Done,
    /// Somebody waits for that: a look is to be made.
    Wanted,
    /// It was handed over to the count: a reference is to be put.
    Counted,
}

impl Slot {
    const fn is_mine(word: Word, me: Option<Identity>) -> bool {
        match me {
            Some(me) => me.serial() == word.serial(),
            None => false,
        }
    }

    /// Steps 5 to 7: ends the announcement `word`, from whatever thread. From step 5 on nothing but the slot is touched (I5).
    #[inline(always)]
    pub(crate) fn end(&self, word: Word, fences: Fences) -> Ended {
        if Self::is_mine(word, own_identity()) {
            // ORDERING: Release, E2. A plain store will do: nobody hands over what a living thread has announced (I3), and no other thread
            // has this reference.
            self.word.store(0, Ordering::Release);
        } else if !self.take_out(word) {
            return Ended::Counted;
        }
        fences.light();
        // ORDERING: Relaxed; the fence orders it after the store of the word (E3). Who looks takes the lock.
        if self.is_wanted.load(Ordering::Relaxed) {
            Ended::Wanted
        } else {
            Ended::Done
        }
    }

    /// Takes the announcement `word` of another thread out; false if somebody has done that.
    fn take_out(&self, word: Word) -> bool {
        // ORDERING: AcqRel; release is E2, and publishes to who ends the announcement that there is a counted reference for it (I4); acquire,
        // on failure too, is the other side of that.
        self.word
            .compare_exchange(word.0, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// The slots of one thread.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Block {
    /// The serial of the thread whose slots these are; 0 if there was none yet.
    owner: AtomicU32,
    slots: [Slot; NR_SLOTS],
    /// On other lines; only the owner stores to them.
    pub(super) scores: Padded<Scores>,
}

#[cfg(not(loom))]
const _: () =
    assert!(std::mem::offset_of!(Block, scores) == 2 * LINES && size_of::<Block>() == 3 * LINES);
#[cfg(loom)]
const _: usize = LINES;

impl Block {
    pub(super) fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            slots: std::array::from_fn(|_| Slot {
                word: AtomicU64::new(0),
                is_wanted: AtomicBool::new(false),
            }),
            scores: Padded::default(),
        }
    }

    /// Makes it that of no thread again, with nothing announced, for another pool.
    #[cfg(not(loom))]
    pub(super) fn clear(&self) {
        // ORDERING: Relaxed, all of them; the pool is gone, and the next one gets the block through a lock. Who has ended an announcement of the
        // old one may still load whether it is wanted, and is right whatever it finds (I6).
        self.owner.store(0, Ordering::Relaxed);
        for slot in &self.slots {
            slot.word.store(0, Ordering::Relaxed);
            slot.is_wanted.store(false, Ordering::Relaxed);
        }
        self.scores.clear();
    }

    /// Whether a thread with this serial owns it. If that is the caller's, the answer is exact.
    #[inline(always)]
    fn is_of(&self, serial: u32) -> bool {
        // ORDERING: Relaxed; only the thread itself stores its serial, and others only after it has ended.
        self.owner.load(Ordering::Relaxed) == serial
    }
}

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
type Place = (usize, usize);

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

    /// From now on nobody finds the pool who has ended an announcement of it.
    pub(super) fn close(&self) {
        self.board.close();
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
        // ORDERING: Relaxed; nobody else fills it (I3), and nothing is done to the frame that was announced there.
        let mut slots = block.slots.iter();
        let slot = slots.find(|slot| slot.word.load(Ordering::Relaxed) == 0)?;
        // ORDERING: Relaxed; it publishes nothing, and the fence that follows orders it before the load of the mark (E1).
        slot.word.store(word.0, Ordering::Relaxed);
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

    /// Says which slots are wanted in the first `nr_used` blocks; whether any was not before. With the lock.
    pub(super) fn want(&self, nr_used: usize, places: &[Place]) -> bool {
        let mut has_more = false;
        for (number, block) in self.board.blocks().iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                let is_wanted = places.contains(&(number, at));
                // ORDERING: Relaxed, both; only the holder of the lock stores to it. What is added is ordered before the next loads
                // of the slots by the heavy fence of step e (E3).
                if slot.is_wanted.load(Ordering::Relaxed) != is_wanted {
                    slot.is_wanted.store(is_wanted, Ordering::Relaxed);
                    has_more |= is_wanted;
                }
            }
        }
        has_more
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
