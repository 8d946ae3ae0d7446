//! The kind word of a frame, which has the frame's kind and the order of its block. Pure functions.
//!
//! ```text
//! 31      24 23                              0
//! [  kind  ] [             order             ]
//! ```

use super::geometry::Order;

/// Current use of a frame.
///
/// | kind | lock bit of the count | may change the kind |
/// |---|---|---|
/// | `Tail` | set | the thread that may change the head of the block (I1) |
/// | `Free` | set | the holder of the node's lock |
/// | `Front` | set | the user of the thread cache, or holder of the node's lock |
/// | `Owned` | set | the holder of the [`UniqueFrame`](crate::UniqueFrame) |
/// | others | clear, except briefly | after the last reference: the thread that locked the count |
///
/// The other kinds are `Page`, `Leaf`, `Raw`, `Anon` and `Table`. Their counts are locked by a
/// freeze, or by the put that returns [`Put::Last`](crate::refcount::Put::Last).
///
/// I1: the kind word of a tail has no meaning. It is `Tail`, or `Raw` of order 0 if a range was
/// freed as blocks, which saves a store per frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Not the first frame of its block. The kind word of the head has the kind and the order.
    Tail = 0,
    /// Head of a free block on a list of its node.
    Free = 1,
    /// Head of a free block in a thread cache or a transfer cache.
    Front = 2,
    /// Allocated, with no final kind yet.
    Owned = 3,
    /// Page of a file.
    Page = 4,
    /// Slots of a part of a file's index.
    Leaf = 5,
    /// Frame of a [`FrameRange`](crate::FrameRange). The range may have been freed already.
    Raw = 6,
    /// Page of memory spaces.
    Anon = 8,
    /// Page-table entries of memory spaces.
    Table = 9,
}

impl FrameKind {
    pub(crate) const fn may_be_published(self) -> bool {
        matches!(
            self,
            Self::Page | Self::Leaf | Self::Raw | Self::Anon | Self::Table
        )
    }

    #[inline]
    const fn from_bits(bits: u32) -> Self {
        match bits {
            1 => Self::Free,
            2 => Self::Front,
            3 => Self::Owned,
            4 => Self::Page,
            5 => Self::Leaf,
            6 => Self::Raw,
            8 => Self::Anon,
            9 => Self::Table,
            _ => Self::Tail,
        }
    }
}

const KIND_SHIFT: u32 = 24;

#[inline]
pub(crate) const fn pack(kind: FrameKind, order: Order) -> u32 {
    (kind as u32) << KIND_SHIFT | order.get() as u32
}

#[inline]
pub(crate) fn unpack(word: u32) -> (FrameKind, Order) {
    let order = Order::new((word & 0xff) as u8).unwrap_or(Order::ZERO);
    (FrameKind::from_bits(word >> KIND_SHIFT), order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_order_survives_packing() {
        use FrameKind::{Anon, Free, Front, Leaf, Owned, Page, Raw, Table, Tail};
        for kind in [Tail, Free, Front, Owned, Page, Leaf, Raw, Anon, Table] {
            for order in 0..=Order::MAX.get() {
                let order = Order::new(order).expect("a legal order");
                assert_eq!(unpack(pack(kind, order)), (kind, order));
            }
        }
    }
}
