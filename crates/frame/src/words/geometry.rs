//! Sizes and numbers of frames. Under loom they are smaller, so that models reach rare paths.

use std::fmt;

use pagewell_sync::scaled;

/// Binary logarithm of [`FRAME_BYTES`].
pub const FRAME_SHIFT: u32 = scaled(12, 4);

/// Size of a frame in bytes.
pub const FRAME_BYTES: usize = 1 << FRAME_SHIFT;

/// Size of a frame in 64-bit words.
pub const FRAME_WORDS: usize = FRAME_BYTES / 8;

/// Width of a frame number in bits. A pool of frames of 4 KiB therefore has less than 4 TiB.
pub const FRAME_NR_BITS: u32 = 30;

/// Maximum number of frames of a pool. No frame has the number `MAX_FRAMES`, so it can mean "none".
pub const MAX_FRAMES: usize = (1 << FRAME_NR_BITS) - 1;

/// Maximum number of memory nodes of a pool.
pub const MAX_NODES: usize = 64;

/// Number of a frame in its pool, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNr(u32);

impl FrameNr {
    /// Creates a frame number. Panics if the number does not fit [`FRAME_NR_BITS`].
    #[inline]
    pub const fn new(nr: u32) -> Self {
        assert!(nr < 1 << FRAME_NR_BITS);
        Self(nr)
    }

    /// Creates a frame number. Returns `None` if the number does not fit [`FRAME_NR_BITS`].
    #[inline]
    pub const fn try_new(nr: u32) -> Option<Self> {
        if nr < 1 << FRAME_NR_BITS {
            Some(Self(nr))
        } else {
            None
        }
    }

    #[inline]
    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self(bits as u32 & ((1 << FRAME_NR_BITS) - 1))
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Divides `first..end` into the largest aligned blocks up to order `most`, in ascending order.
pub(crate) fn blocks_of(
    first: u32,
    end: u32,
    most: Order,
) -> impl Iterator<Item = (FrameNr, Order)> {
    let mut nr = first;
    std::iter::from_fn(move || {
        let left = end.checked_sub(nr).filter(|left| *left > 0)?;
        // Frame 0 is aligned to every order.
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

/// Order of a block. A block of order `k` has `2^k` frames, and begins at a multiple of `2^k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(u8);

impl Order {
    /// Order of a single frame.
    pub const ZERO: Self = Self(0);
    /// Order of the largest blocks that the allocator keeps: 4 MiB.
    pub const MAX: Self = Self(10);
    /// Order of a page block: 2 MiB, like a huge page. Ranges are freed in blocks up to this order.
    pub const PAGE_BLOCK: Self = Self(scaled(9, 2));
    /// Number of orders.
    pub const COUNT: usize = Self::MAX.0 as usize + 1;

    /// Creates an order. Returns `None` if it is larger than [`Order::MAX`].
    #[inline]
    pub const fn new(order: u8) -> Option<Self> {
        if order <= Self::MAX.0 {
            Some(Self(order))
        } else {
            None
        }
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of frames in a block of this order.
    #[inline]
    pub const fn frames(self) -> u32 {
        1 << self.0
    }

    /// Returns the number of bytes in a block of this order.
    #[inline]
    pub const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }

    #[inline]
    pub(crate) const fn up(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

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
        // No block could be larger, up to order 9, and the blocks cover the range.
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
