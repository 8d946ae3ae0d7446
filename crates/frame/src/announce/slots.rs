//! The slots in which threads announce, in lines of their own.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use pagewell_sync::shard::{Identity, LINES, Padded, own_identity};

use super::scores::Scores;
use crate::words::FrameNr;

/// How many references a thread can have announced at once.
pub(super) const NR_SLOTS: usize = if cfg!(loom) { 2 } else { 14 };

/// All slots, as bits of a word.
const ALL: u32 = (1 << NR_SLOTS) - 1;

/// A place has the number of its block above so many bits, and that of its slot in them.
const SLOT_BITS: u32 = 4;
const _: () = assert!(NR_SLOTS <= 1 << SLOT_BITS);

/// Where a reference is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Nowhere.
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline(always)]
    const fn new(block: u32, slot: u32) -> Self {
        Self(block << SLOT_BITS | slot)
    }

    #[inline(always)]
    const fn block(self) -> usize {
        (self.0 >> SLOT_BITS) as usize
    }

    #[inline(always)]
    const fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }
}

/// An announcement: the frame, and the serial of the thread that has made it. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word(u64);

impl Word {
    #[inline(always)]
    const fn new(frame: FrameNr, serial: u32) -> Self {
        Self((serial as u64) << u32::BITS | frame.get() as u64)
    }
}

/// The frame that a slot's word announces, if it announces any: serials are not zero.
#[inline]
fn announced(bits: u64) -> Option<FrameNr> {
    (bits != 0).then(|| FrameNr::new(bits as u32))
}

/// The slots of one thread.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Block {
    /// The serial of the thread whose slots these are; 0 if there was none yet.
    owner: AtomicU32,
    /// Which slots the owner knows to be free, as bits. Only the owner stores to it.
    free: AtomicU32,
    /// Which slots' ends are waited for, as bits: stored to with the lock.
    wanted: AtomicU32,
    slots: [AtomicU64; NR_SLOTS],
    /// On other lines; only the owner stores to them.
    pub(super) scores: Padded<Scores>,
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(Block, scores) == LINES && size_of::<Block>() == 2 * LINES);
#[cfg(loom)]
const _: usize = LINES;

impl Block {
    fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            free: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            scores: Padded::default(),
        }
    }

    /// Whether a thread with this serial owns it. If that is the caller's, the answer is exact.
    #[inline(always)]
    fn is_of(&self, serial: u32) -> bool {
        // ORDERING: Relaxed; only the thread itself stores its serial, and others only after it has ended.
        self.owner.load(Ordering::Relaxed) == serial
    }

    /// Looks for slots that others have emptied.
    #[cold]
    fn find_free(&self) -> u32 {
        let mut free = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            // ORDERING: Relaxed; the owner only reuses the slot, and does nothing to the frame that was announced there.
            if slot.load(Ordering::Relaxed) == 0 {
                free |= 1 << at;
            }
        }
        free
    }
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

/// The slots of all threads.
#[derive(Debug)]
pub(super) struct Slots {
    blocks: Box<[Block]>,
    pub(super) fences: Fences,
}

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

    /// The block of `me`, if it is its owner already.
    #[inline(always)]
    pub(super) fn own(&self, me: Identity) -> Option<&Block> {
        let block = self.blocks.get(me.number() as usize)?;
        block.is_of(me.serial()).then_some(block)
    }

    /// Whether there is a block for `me`.
    pub(super) fn has_block(&self, me: Identity) -> bool {
        (me.number() as usize) < self.blocks.len()
    }

    /// Steps 1 and 2: announces `frame`, for this thread, which is `me`.
    #[inline(always)]
    pub(super) fn announce(&self, me: Identity, frame: FrameNr) -> Option<Place> {
        let block = self.own(me)?;
        // ORDERING: Relaxed, here and below; only this thread stores to it (I3).
        let mut free = block.free.load(Ordering::Relaxed);
        if free == 0 {
            free = block.find_free();
            if free == 0 {
                return None;
            }
        }
        let at = free.trailing_zeros();
        let slot = block.slots.get(at as usize)?;
        block.free.store(free & (free - 1), Ordering::Relaxed);
        // ORDERING: Relaxed; it publishes nothing, and the fence that follows orders it before the load of the mark (E1).
        slot.store(Word::new(frame, me.serial()).0, Ordering::Relaxed);
        self.fences.light();
        Some(Place::new(me.number(), at))
    }

    /// Steps 5 to 7: ends the announcement of `frame` at `place` by the thread with `serial`, from whatever thread.
    #[inline(always)]
    pub(super) fn end(&self, place: Place, frame: FrameNr, serial: u32) -> Ended {
        let Some((block, slot)) = self.at(place) else {
            return Ended::Done;
        };
        let is_mine = own_identity().is_some_and(|me| me.serial() == serial);
        if is_mine {
            // ORDERING: Release, E2. A plain store will do: nobody hands over what a living thread has announced (I3), and no other thread
            // has this guard.
            slot.store(0, Ordering::Release);
            // ORDERING: Relaxed, both, as in `announce`.
            let free = block.free.load(Ordering::Relaxed) | 1 << place.slot();
            block.free.store(free, Ordering::Relaxed);
        } else if !take_out(slot, Word::new(frame, serial).0) {
            return Ended::Counted;
        }
        self.fences.light();
        // ORDERING: Relaxed; the fence orders it after the store of the slot (E3). Who looks takes the lock.
        if block.wanted.load(Ordering::Relaxed) & 1 << place.slot() == 0 {
            Ended::Done
        } else {
            Ended::Wanted
        }
    }

    #[inline(always)]
    fn at(&self, place: Place) -> Option<(&Block, &AtomicU64)> {
        let block = self.blocks.get(place.block())?;
        Some((block, block.slots.get(place.slot())?))
    }

    /// Step c: what is announced in the first `nr_used` blocks.
    pub(super) fn scan(&self, nr_used: usize) -> Scan {
        let mut seen = Vec::new();
        for (number, block) in self.blocks.iter().take(nr_used).enumerate() {
            for (at, slot) in block.slots.iter().enumerate() {
                // ORDERING: Acquire, E2: if the announcement has ended, what was done with the frame before that is seen.
                if let Some(frame) = announced(slot.load(Ordering::Acquire)) {
                    seen.push((frame, Place::new(number as u32, at as u32)));
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
            let of_block = places.iter().filter(|place| place.block() == number);
            let wanted = of_block.fold(0, |bits, place| bits | 1_u32 << place.slot());
            // ORDERING: Relaxed, both; only the holder of the lock stores to it. What is added is ordered before the next loads of
            // the slots by the heavy fence of step e (E3).
            let before = block.wanted.load(Ordering::Relaxed);
            if before != wanted {
                block.wanted.store(wanted, Ordering::Relaxed);
            }
            has_more |= wanted & !before != 0;
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
            let word = slot.load(Ordering::Acquire);
            if let Some(frame) = announced(word) {
                hand_over(frame);
                if !take_out(slot, word) {
                    take_back(frame);
                }
            }
        }
        // ORDERING: Relaxed, both; the thread itself is the only one that needs to see them.
        block.free.store(ALL, Ordering::Relaxed);
        block.owner.store(me.serial(), Ordering::Relaxed);
        Some(me.number() as usize + 1)
    }
}

/// Takes the announcement `word` out of a slot of another thread; false if another has done that.
fn take_out(slot: &AtomicU64, word: u64) -> bool {
    // ORDERING: AcqRel; release is E2, and publishes to who ends the announcement that there is a counted reference for it (I4); acquire, on
    // failure too, is the other side of that.
    slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}
