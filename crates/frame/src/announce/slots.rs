//! The slots in which threads announce, in lines of their own.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use pagewell_sync::shard::{Identity, LINES, Padded, own_identity};

use super::scores::Scores;
use crate::words::FrameNr;

/// How many references a thread can have announced at once.
pub(super) const NR_SLOTS: usize = if cfg!(loom) { 2 } else { 15 };

/// An announcement: the frame, and the serial of the thread that has made it. Never zero, as no serial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    #[inline(always)]
    pub(crate) const fn new(frame: FrameNr, serial: u32) -> Self {
        Self((serial as u64) << u32::BITS | frame.get() as u64)
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

    /// Steps 5 to 7: ends the announcement `word`, from whatever thread.
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
    fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            slots: std::array::from_fn(|_| Slot {
                word: AtomicU64::new(0),
                is_wanted: AtomicBool::new(false),
            }),
            scores: Padded::default(),
        }
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
    blocks: Box<[Block]>,
    pub(super) fences: Fences,
}

/// The numbers of a block and of a slot in it.
type Place = (usize, usize);

/// What a look saw: which slots announce a frame.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// In ascending order of frames.
    seen: Vec<(FrameNr, Place)>,
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
}

impl Slots {
    pub(super) fn new(nr_threads: usize, fences: Fences) -> Self {
        Self {
            blocks: (0..nr_threads).map(|_| Block::new()).collect(),
            fences,
        }
    }

    /// Whether there is a block for `me`.
    pub(super) fn has_block(&self, me: Identity) -> bool {
        (me.number() as usize) < self.blocks.len()
    }

    /// The block of `me`, if it is its owner already.
    #[inline(always)]
    pub(super) fn own(&self, me: Identity) -> Option<&Block> {
        let block = self.blocks.get(me.number() as usize)?;
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
        let mut seen = Vec::new();
        for (number, block) in self.blocks.iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                // ORDERING: Acquire, E2: if the announcement has ended, what was done with the frame before that is seen.
                if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                    seen.push((word.frame(), (number, at)));
                }
            }
        }
        seen.sort_unstable_by_key(|(frame, _)| frame.get());
        Scan { seen }
    }

    /// Says which slots are wanted in the first `nr_used` blocks; whether any was not before. With the lock.
    pub(super) fn want(&self, nr_used: usize, places: &[Place]) -> bool {
        let mut has_more = false;
        for (number, block) in self.blocks.iter().take(nr_used).enumerate() {
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
    /// counted reference to a frame, and `take_back`, which puts it if it was not needed. None if there is no block for it. Says how many
    /// blocks are in use at least.
    pub(super) fn take_over(
        &self,
        me: Identity,
        hand_over: impl Fn(FrameNr),
        take_back: impl Fn(FrameNr),
    ) -> Option<usize> {
        let block = self.blocks.get(me.number() as usize)?;
        for slot in &block.slots {
            // ORDERING: Acquire; what the thread before us did with the frame comes before our reference to it. (Its number was handed on
            // through a lock too.)
            if let Some(word) = Word::of(slot.word.load(Ordering::Acquire)) {
                hand_over(word.frame());
                if !slot.take_out(word) {
                    take_back(word.frame());
                }
            }
        }
        // ORDERING: Relaxed; the thread itself is the only one that needs to see it.
        block.owner.store(me.serial(), Ordering::Relaxed);
        Some(me.number() as usize + 1)
    }
}
