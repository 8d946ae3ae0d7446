//! The typed word of a frame: what the frame is, and the order of its block. Pure.
//!
//! ```text
//! 31      24 23                              0
//! [  kind  ] [             order             ]
//! ```

use super::geometry::Order;

/// What a frame is at the moment.
///
/// | kind | lock bit of the count | who may change the kind |
/// |---|---|---|
/// | `Tail` | set | whoever may change the head of its block (I1) |
/// | `Free` | set | the holder of the node's lock |
/// | `Front` | set | the holder of the lock of the front cache that has it |
/// | `Owned` | set | the [`UniqueFrame`](crate::UniqueFrame) that names it |
/// | `Page`, `Leaf`, `Raw`, `Anon`, `Table` | clear, but for moments | nobody while anyone holds a reference; then whoever froze the count, or got [`Put::Last`](crate::refcount::Put::Last) |
///
/// I1: what the word of a frame says that is not the first of its block means nothing. It is `Tail`, or
/// `Raw` of order 0 where a range was freed by the block: writing every tail would cost a store a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Not the first frame of its block; the block's head says the rest.
    Tail = 0,
    /// The head of a free block on a list of its node.
    Free = 1,
    /// In a front cache: free, but not in the node's lists.
    Front = 2,
    /// Allocated; its owner has not said what for.
    Owned = 3,
    /// Holds a page of a file.
    Page = 4,
    /// Holds the slots of a part of a file's index.
    Leaf = 5,
    /// A frame of a [`FrameRange`](crate::FrameRange), or of one that was freed while others held references.
    Raw = 6,
    /// Holds a page of memory spaces.
    Anon = 8,
    /// Holds entries of memory spaces' page tables.
    Table = 9,
}

impl FrameKind {
    /// Whether a block of this kind has references.
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

/// The word as it is stored.
#[inline]
pub(crate) const fn pack(kind: FrameKind, order: Order) -> u32 {
    (kind as u32) << KIND_SHIFT | order.get() as u32
}

/// What the stored word says.
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
