//! Value types: ghosts, notes, entries, and the state of a frame.

/// Time and queue of a page's eviction. A ghost may be lost at any time: the cache keeps it in the
/// page's slot while that costs no memory. Time is counted in evicted frames, modulo a power of
/// two, so a very old ghost may look young. Its page is then admitted as if used recently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ghost(u32);

impl Ghost {
    /// Maximum number of bits of [`Ghost::bits`].
    pub const BITS: u32 = 29;

    /// Decodes [`Ghost::bits`]. Bits above the lowest [`Ghost::BITS`] are ignored.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Encodes the ghost.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn new(epoch: Epoch, from: From) -> Self {
        Self(epoch.0 << 1 | from as u32)
    }

    pub(crate) const fn age(self, now: Epoch) -> u32 {
        now.0.wrapping_sub(self.0 >> 1) & Epoch::MASK
    }

    pub(crate) const fn from(self) -> From {
        if self.0 & 1 == 0 {
            From::Window
        } else {
            From::Main
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Window = 0,
    Main = 1,
}

/// Number of evicted frames, modulo 2^28.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    const MASK: u32 = (1 << (Ghost::BITS - 1)) - 1;

    #[cfg(test)]
    pub(crate) const fn new(epoch: u32) -> Self {
        Self(epoch & Self::MASK)
    }

    pub(crate) const fn since(self, then: Self) -> u32 {
        self.0.wrapping_sub(then.0) & Self::MASK
    }

    #[must_use]
    pub(crate) const fn after(self, nr_evicted: u32) -> Self {
        Self(self.0.wrapping_add(nr_evicted) & Self::MASK)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Nothing,
    Arrived(Option<Ghost>),
    MovedFrom(u32),
}

impl Note {
    const ARRIVED: u32 = 1 << 30;
    const GHOST: u32 = 2 << 30;
    const MOVED: u32 = 3 << 30;

    /// Encodes the note. Only `Nothing` is 0.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Arrived(None) => Self::ARRIVED,
            Self::Arrived(Some(ghost)) => Self::GHOST | ghost.bits(),
            Self::MovedFrom(frame) => Self::MOVED | frame,
        }
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits & Self::MOVED {
            0 => Self::Nothing,
            Self::ARRIVED => Self::Arrived(None),
            Self::GHOST => Self::Arrived(Some(Ghost::from_bits(bits))),
            _ => Self::MovedFrom(bits & !Self::MOVED),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Unclassified: free, or filled and not classified yet.
    Limbo = 0,
    /// Probation queue: pages on trial.
    Window = 1,
    /// Protected queue: pages that were accessed again, have returned, or filled free memory.
    Main = 2,
    /// Frames that had no evictable page when they were examined.
    Others = 3,
}

impl Queue {
    pub(crate) const ALL: [Self; 4] = [Self::Limbo, Self::Window, Self::Main, Self::Others];
}

pub(crate) const MAX_AGE: u8 = 3;

/// Maximum recorded order of a page. Larger pages are recorded with this order.
const MAX_ORDER: u8 = 7;

/// State of a frame: its queue (bits 0 and 1), its age in this queue (bits 2 and 3), the order of
/// its page (bits 4 to 6), and the turn of its latest entry (bit 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing(u8);

impl Standing {
    pub(crate) const fn queue(self) -> Queue {
        match self.0 & 3 {
            0 => Queue::Limbo,
            1 => Queue::Window,
            2 => Queue::Main,
            _ => Queue::Others,
        }
    }

    pub(crate) const fn age(self) -> u8 {
        self.0 >> 2 & 3
    }

    /// Returns the recorded number of frames of the frame's page, or 1 if it has none.
    pub(crate) const fn nr_frames(self) -> u32 {
        1 << (self.0 >> 4 & 7)
    }

    pub(crate) const fn turn(self) -> Turn {
        Turn(self.0 >> 7)
    }

    #[must_use]
    pub(crate) const fn in_queue(self, queue: Queue, age: u8) -> Self {
        let age = if age > MAX_AGE { MAX_AGE } else { age };
        Self(self.0 & 0xF0 | age << 2 | queue as u8)
    }

    #[must_use]
    pub(crate) const fn of_frames(self, nr_frames: u32) -> Self {
        let order = if nr_frames == 0 {
            0
        } else {
            nr_frames.ilog2() as u8
        };
        let order = if order > MAX_ORDER { MAX_ORDER } else { order };
        Self(self.0 & 0x8F | order << 4)
    }

    #[must_use]
    pub(crate) const fn with_turn(self, turn: Turn) -> Self {
        Self(self.0 & 0x7F | turn.0 << 7)
    }
}

/// Distinguishes the two entries that one frame has after a moved page has taken the older one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Turn(u8);

impl Turn {
    #[must_use]
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entry(u32);

impl Entry {
    const TURN: u32 = 1 << 31;

    pub(crate) const fn new(frame: u32, turn: Turn) -> Self {
        Self(frame | (turn.0 as u32) << 31)
    }

    pub(crate) const fn frame(self) -> u32 {
        self.0 & !Self::TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were() {
        let ghosts = [0, 1, 2, (1 << Ghost::BITS) - 1].map(|bits| Some(Ghost::from_bits(bits)));
        for ghost in ghosts.into_iter().chain([None]) {
            let note = Note::Arrived(ghost);
            assert_ne!(note.bits(), 0);
            assert_eq!(Note::from_bits(note.bits()), note);
        }
        for from in [0, 1, (1 << 30) - 1] {
            let note = Note::MovedFrom(from);
            assert_ne!(note.bits(), 0);
            assert_eq!(Note::from_bits(note.bits()), note);
        }
        assert_eq!(Note::from_bits(0), Note::Nothing);
    }

    #[test]
    fn ages_of_ghosts_wrap_with_the_epoch() {
        for start in [0, 5, (1 << 28) - 1, (1 << 28) - 3] {
            let then = Epoch::new(start);
            for from in [From::Window, From::Main] {
                let ghost = Ghost::new(then, from);
                assert_eq!(Ghost::from_bits(ghost.bits()), ghost);
                assert_eq!(ghost.from(), from);
                for age in [0, 1, 7, 1 << 20, (1 << 28) - 1] {
                    assert_eq!(ghost.age(then.after(age)), age);
                }
                assert_eq!(ghost.age(then.after(1 << 28)), 0);
            }
        }
    }

    #[test]
    fn the_parts_of_a_standing_do_not_touch_each_other() {
        for bits in 0..=u8::MAX {
            let standing = Standing(bits);
            for queue in Queue::ALL {
                for age in 0..=MAX_AGE {
                    for order in 0..=MAX_ORDER {
                        for turn in [Turn(0), Turn(1)] {
                            let it = standing
                                .with_turn(turn)
                                .in_queue(queue, age)
                                .of_frames(1 << order);
                            assert_eq!((it.queue(), it.age()), (queue, age));
                            assert_eq!((it.nr_frames(), it.turn()), (1 << order, turn));
                        }
                    }
                }
            }
        }
    }
}
