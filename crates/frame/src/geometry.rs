//! Sizes and numbers of frames.
//!
//! A *frame* is [`FRAME_BYTES`] of memory. A *block* of order `k` is `2^k` frames whose first number is
//! a multiple of `2^k`. Under loom everything is smaller, so that rare paths run.

use std::fmt;

/// log2 of the size of a frame in bytes.
pub const FRAME_SHIFT: u32 = if cfg!(loom) { 4 } else { 12 };

/// The size of a frame in bytes.
pub const FRAME_BYTES: usize = 1 << FRAME_SHIFT;

/// How many 64-bit words a frame has.
pub const FRAME_WORDS: usize = FRAME_BYTES / 8;

/// How many bits a frame number may have: pools of up to 4 TiB of 4 KiB frames.
pub const FRAME_NR_BITS: u32 = 30;

/// The most frames that a pool may have. The last number is never a frame, so that it can mean "none".
pub const MAX_FRAMES: usize = (1 << FRAME_NR_BITS) - 1;

/// The number of a frame of a pool: the frame's distance from the pool's first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNr(u32);

impl FrameNr {
    /// The frame with this number.
    ///
    /// # Panics
    ///
    /// When the number does not fit [`FRAME_NR_BITS`].
    pub const fn new(nr: u32) -> Self {
        assert!(nr < 1 << FRAME_NR_BITS);
        Self(nr)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for FrameNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}", self.0)
    }
}

/// The order of a block: log2 of its length in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Self = Self(0);
    /// The largest blocks that the allocator keeps: 4 MiB.
    pub const MAX: Self = Self(10);
    /// How many orders there are.
    pub const COUNT: usize = Self::MAX.0 as usize + 1;

    /// The order with this number, or none if it is larger than [`Order::MAX`].
    pub const fn new(order: u8) -> Option<Self> {
        if order <= Self::MAX.0 {
            Some(Self(order))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// How many frames a block of this order has.
    pub const fn frames(self) -> u32 {
        1 << self.0
    }

    /// How many bytes a block of this order has.
    pub const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }

    /// The order of the block that two blocks of this order make, or none at the top.
    pub(crate) const fn up(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// Half a block of this order, or none at the bottom.
    pub(crate) const fn down(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(order) => Some(Self(order)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_end_at_four_mebibytes() {
        assert_eq!(Order::new(10), Some(Order::MAX));
        assert_eq!(Order::new(11), None);
        assert_eq!(Order::MAX.frames(), 1024);
        assert_eq!(Order::MAX.up(), None);
        assert_eq!(Order::ZERO.down(), None);
        assert_eq!(Order::MAX.down().and_then(Order::up), Some(Order::MAX));
    }
}
