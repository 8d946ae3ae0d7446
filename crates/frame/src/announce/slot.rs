//! A slot, what is announced in it, and the slots of one thread, in lines of their own.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use pagewell_sync::shard::{Identity, LINES, Padded, own_identity};

use super::scores::Scores;
use crate::words::{FRAME_NR_BITS, FrameNr};

/// How many references a thread can have announced at once.
const NR_SLOTS: usize = if cfg!(loom) { 2 } else { 15 };

/// An announcement: the frame, whether its holder borrows nothing of the pool, and the serial of the thread that has made it. Never zero, as
/// no serial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

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

    pub(super) const fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }

    /// Of a slot that is not empty.
    pub(super) fn of(bits: u64) -> Option<Self> {
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
    pub(super) word: AtomicU64,
    /// Whether the end of what is announced is waited for: stored to with the lock.
    pub(super) is_wanted: AtomicBool,
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
    pub(super) fn take_out(&self, word: Word) -> bool {
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
    pub(super) owner: AtomicU32,
    pub(super) slots: [Slot; NR_SLOTS],
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
    pub(super) fn is_of(&self, serial: u32) -> bool {
        // ORDERING: Relaxed; only the thread itself stores its serial, and others only after it has ended.
        self.owner.load(Ordering::Relaxed) == serial
    }
}
