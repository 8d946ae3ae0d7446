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

/// The most nodes that a pool may have.
pub const MAX_NODES: usize = 64;

/// The number of a frame of a pool: the frame's distance from the pool's first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNr(u32);

impl FrameNr {
    /// The frame with this number.
    ///
    /// # Panics
    ///
    /// When the number does not fit [`FRAME_NR_BITS`].
    #[inline]
    pub const fn new(nr: u32) -> Self {
        assert!(nr < 1 << FRAME_NR_BITS);
        Self(nr)
    }

    /// The frame with this number, or none if it does not fit [`FRAME_NR_BITS`].
    #[inline]
    pub const fn try_new(nr: u32) -> Option<Self> {
        if nr < 1 << FRAME_NR_BITS {
            Some(Self(nr))
        } else {
            None
        }
    }

    /// The frame whose number is the lower [`FRAME_NR_BITS`] of a word: of one that was stored there, without a check.
    #[inline]
    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self(bits as u32 & ((1 << FRAME_NR_BITS) - 1))
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number, as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The largest aligned blocks that make up the frames `first..end`, in ascending order, none of them
/// larger than `most`: aligned to their size, and fitting what is left.
pub(crate) fn blocks_of(
    first: u32,
    end: u32,
    most: Order,
) -> impl Iterator<Item = (FrameNr, Order)> {
    let mut nr = first;
    std::iter::from_fn(move || {
        let left = end.checked_sub(nr).filter(|left| *left > 0)?;
        // Frame 0 is aligned to everything.
        let aligned = if nr == 0 {
            u32::MAX
        } else {
            nr.trailing_zeros()
        };
        let order = aligned.min(left.ilog2()).min(u32::from(most.0));
        let block = (FrameNr::new(nr), Order(order as u8));
        nr += 1 << order;
        Some(block)
    })
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
    /// The page block: 2 MiB, what a huge page of the machine holds. Ranges are freed in blocks of at
    /// most this order.
    pub const PAGE_BLOCK: Self = Self(if cfg!(loom) { 2 } else { 9 });
    /// How many orders there are.
    pub const COUNT: usize = Self::MAX.0 as usize + 1;

    /// The order with this number, or none if it is larger than [`Order::MAX`].
    #[inline]
    pub const fn new(order: u8) -> Option<Self> {
        if order <= Self::MAX.0 {
            Some(Self(order))
        } else {
            None
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number, as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// How many frames a block of this order has.
    #[inline]
    pub const fn frames(self) -> u32 {
        1 << self.0
    }

    /// How many bytes a block of this order has.
    #[inline]
    pub const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }

    /// The order of the block that two blocks of this order make, or none at the top.
    #[inline]
    pub(crate) const fn up(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// Half a block of this order, or none at the bottom.
    #[inline]
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
    fn a_range_is_cut_into_its_largest_aligned_blocks() {
        let cut = |first, end| -> Vec<(u32, u8)> {
            blocks_of(first, end, Order(9))
                .map(|(frame, order)| (frame.get(), order.get()))
                .collect()
        };
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(0, 1), [(0, 0)]);
        assert_eq!(cut(0, 1024), [(0, 9), (512, 9)]);
        assert_eq!(cut(512, 1024), [(512, 9)]);
        assert_eq!(cut(3, 9), [(3, 0), (4, 2), (8, 0)]);
        assert_eq!(cut(1, 2), [(1, 0)]);
        // No two neighbours could have been one block, and nothing is left out.
        for (first, end) in [(0, 700), (1, 700), (17, 3000), (511, 1025), (1023, 1536)] {
            let mut nr = first;
            for (frame, order) in cut(first, end) {
                assert_eq!(frame, nr);
                assert!(nr.is_multiple_of(1 << order) && order <= 9);
                let is_largest =
                    order == 9 || !nr.is_multiple_of(2 << order) || nr + (2 << order) > end;
                assert!(is_largest, "{first}..{end}: {frame} of order {order}");
                nr += 1 << order;
            }
            assert_eq!(nr, end);
        }
    }

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
