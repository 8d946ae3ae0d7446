//! Pure words: ghosts, notes, and what is known of a frame.

/// What stays of a page that was evicted, until it is filled again: when it went, and from where.
///
/// A word of [`Ghost::BITS`] bits. The cache keeps it where the page was found, for as long as that costs nothing; it may be lost
/// at any time. Time is counted in evictions, modulo a power of two. So a ghost that is very old may look young: its page is then
/// admitted as if it had been used lately, and has to prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ghost(u32);

impl Ghost {
    /// How many bits [`Ghost::bits`] may have.
    pub const BITS: u32 = 29;

    /// As [`Ghost::bits`]; bits above the lowest [`Ghost::BITS`] are dropped.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// As a word, to be kept.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn new(epoch: Epoch, from: From) -> Self {
        Self(epoch.0 << 1 | from as u32)
    }

    /// How many evictions there were since, modulo 2^28.
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

/// The queue that a page was evicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Window = 0,
    Main = 1,
}

/// A count of frames that were evicted, modulo 2^28.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    const MASK: u32 = (1 << (Ghost::BITS - 1)) - 1;

    #[cfg(test)]
    pub(crate) const fn new(epoch: u32) -> Self {
        Self(epoch & Self::MASK)
    }

    /// How many evictions there were since another epoch.
    pub(crate) const fn since(self, then: Self) -> u32 {
        self.0.wrapping_sub(then.0) & Self::MASK
    }

    #[must_use]
    pub(crate) const fn after(self, nr_evicted: u32) -> Self {
        Self(self.0.wrapping_add(nr_evicted) & Self::MASK)
    }
}

/// What has happened in a frame since the policy looked at it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nothing that was noted.
    Nothing,
    /// A page was filled into it.
    Arrived(Option<Ghost>),
    /// A page came to it out of another frame.
    MovedFrom(u32),
}

impl Note {
    const ARRIVED: u32 = 1 << 30;
    const GHOST: u32 = 2 << 30;
    const MOVED: u32 = 3 << 30;

    /// No note is 0, and no other.
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

/// The queue that a frame is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Free, or filled and not sorted in yet.
    Limbo = 0,
    /// Pages that are on trial.
    Window = 1,
    /// Pages that were used again.
    Main = 2,
    /// No page in it, for a while.
    Others = 3,
}

impl Queue {
    pub(crate) const ALL: [Self; 4] = [Self::Limbo, Self::Window, Self::Main, Self::Others];
}

/// The largest age.
pub(crate) const MAX_AGE: u8 = 3;

/// The largest order of a page that is told apart.
const MAX_ORDER: u8 = 7;

/// What the policy knows of a frame: its queue, its age there, how large its page is, and which of its entries counts.
///
/// Bits 0 and 1: the queue. 2 and 3: the age. 4 to 6: the order of the page. 7: the turn.
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

    /// Up to [`MAX_AGE`].
    pub(crate) const fn age(self) -> u8 {
        self.0 >> 2 & 3
    }

    /// How many frames count with it: those of its page, or itself.
    pub(crate) const fn nr_frames(self) -> u32 {
        1 << (self.0 >> 4 & 7)
    }

    /// The turn of the frame's latest entry in a queue.
    pub(crate) const fn turn(self) -> Turn {
        Turn(self.0 >> 7)
    }

    #[must_use]
    pub(crate) const fn in_queue(self, queue: Queue, age: u8) -> Self {
        let age = if age > MAX_AGE { MAX_AGE } else { age };
        Self(self.0 & 0xF0 | age << 2 | queue as u8)
    }

    /// With a page of so many frames.
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

/// Tells two entries of one frame apart, when a page has taken an older one with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Turn(u8);

impl Turn {
    #[must_use]
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// The number of a frame, with the turn, as it stands in a queue.
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
