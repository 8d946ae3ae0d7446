//! A hazard slot, the word in it, and the block of slots of one thread.

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use pagewell_sync::scaled;
use pagewell_sync::shard::{Identity, LINES, Padded, known_identity};

use super::scores::Scores;
use crate::words::{FRAME_NR_BITS, FrameNr};

/// Maximum number of hazards of one thread.
const NR_SLOTS: usize = scaled(15, 2);

/// Word of a hazard: frame, [`OWNED`] bit, serial of the publisher, which is never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

/// Bit of an owned hazard: its holder does not borrow the pool, so the pool must be kept for it.
const OWNED: u64 = 1 << 31;

const _: () = assert!(FRAME_NR_BITS < 31);

impl Word {
    #[inline(always)]
    pub(crate) const fn new(frame: FrameNr, serial: u32) -> Self {
        Self((serial as u64) << u32::BITS | frame.get() as u64)
    }

    #[inline(always)]
    pub(crate) const fn owned(frame: FrameNr, serial: u32) -> Self {
        Self(Self::new(frame, serial).0 | OWNED)
    }

    pub(super) const fn is_owned(self) -> bool {
        self.0 & OWNED != 0
    }

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

#[derive(Debug)]
pub(crate) struct Slot {
    /// The [`Word`] of the hazard, or zero if the slot is empty.
    pub(super) word: AtomicU64,
    /// Set while the slot is awaited. Stored under the lock.
    pub(super) is_wanted: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    Done,
    /// The slot was awaited: the caller must scan.
    Wanted,
    /// The hazard was transferred to the count: the caller must put a reference.
    Counted,
}

impl Slot {
    const fn is_mine(word: Word, me: Option<Identity>) -> bool {
        match me {
            Some(me) => me.serial() == word.serial(),
            None => false,
        }
    }

    /// Executes steps 5 to 7, but no scan, on any thread. From step 5 on, accesses only the slot
    /// (I5).
    #[inline(always)]
    pub(crate) fn end(&self, word: Word, fences: Fences) -> Ended {
        if Self::is_mine(word, known_identity()) {
            // ORDERING: Release, E2. A plain store suffices: this thread published the word and
            // lives, so the hazard is not transferred (I3), and only the caller can end it.
            self.word.store(0, Ordering::Release);
        } else if !self.take_out(word) {
            return Ended::Counted;
        }
        fences.light();
        // ORDERING: Relaxed; the light fence orders this load after the store of the word (E3).
        if self.is_wanted.load(Ordering::Relaxed) {
            Ended::Wanted
        } else {
            Ended::Done
        }
    }

    /// Clears another thread's hazard. Returns `false` if the word was cleared already.
    pub(super) fn take_out(&self, word: Word) -> bool {
        // ORDERING: AcqRel. The release is E2, and publishes the counted reference to the holder of
        // the hazard (I4), who sees it by the acquire, on failure too.
        self.word
            .compare_exchange(word.0, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Block {
    /// Serial of the thread that owns the block, or 0 if none ever did.
    pub(super) owner: AtomicU32,
    pub(super) slots: [Slot; NR_SLOTS],
    /// On separate cache lines, to which only the owner stores.
    pub(super) scores: Padded<Scores>,
}

// The atomics of models are larger.
const _: () = {
    let (scores, end) = (std::mem::offset_of!(Block, scores), size_of::<Block>());
    assert!(scaled(scores, 2 * LINES) == 2 * LINES && scaled(end, 3 * LINES) == 3 * LINES);
};

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

    pub(super) fn clear(&self) {
        // ORDERING: Relaxed, all of them; the pool was released, and a lock orders these stores
        // before the next pool's accesses. A thread that ended an old hazard may still load
        // `is_wanted`, and with any value fails to enter the gate (I5).
        self.owner.store(0, Ordering::Relaxed);
        for slot in &self.slots {
            slot.word.store(0, Ordering::Relaxed);
            slot.is_wanted.store(false, Ordering::Relaxed);
        }
        self.scores.clear();
    }

    /// Returns `true` if the owner has this serial: reliable if `serial` is the calling thread's.
    #[inline(always)]
    pub(super) fn is_of(&self, serial: u32) -> bool {
        // ORDERING: Relaxed; only the thread itself stores its serial, which no other thread
        // replaces before the end of this thread.
        self.owner.load(Ordering::Relaxed) == serial
    }
}
