//! Frames for leaves, allocated several at a time.
//!
//! The memory of a leaf's frame is discarded ([`crate::index::file_index`]), which splits a huge
//! page. A large file that is read sequentially creates a leaf for every 512 pages. Frames of
//! leaves that were allocated one at a time would lie between the pages, and split every huge page.
//! So several frames, contiguous if memory is not fragmented, are allocated at once and kept. If a
//! request finds no frame, or a file is closed, all of them are freed.
//!
//! Each discard is a system call, and a small file needs one leaf. So the stock counts the created
//! leaves. After the stock is freed, its first allocation has as many frames as leaves were
//! counted, and each further one twice as many.
//!
//! Locks. The holder of the stock's lock acquires no other lock. The caller may hold a claim or
//! leaf-creation lock.

use pagewell_frame::{FrameNr, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::index::claim::Claims;
use crate::index::raw;

const MOST: usize = 64;

#[derive(Debug, Default)]
#[repr(align(128))] // Written by misses: shares no cache line with data that hits load.
pub(crate) struct LeafStock {
    stock: Mutex<Stock>,
}

#[derive(Debug, Default)]
struct Stock {
    frames: Vec<FrameNr>,
    /// Number of leaves created since the stock was last freed.
    nr_used: usize,
    /// Maximum number of frames of the next allocation; `None` before the first one.
    next: Option<usize>,
}

impl LeafStock {
    pub(super) fn take<'s>(&self, claims: &'s Claims) -> Option<UniqueFrame<'s>> {
        let mut stock = lock(&self.stock);
        let frame = stock.frames.pop()?;
        stock.nr_used += 1;
        drop(stock);
        Some(raw::withheld(&claims.pool, frame))
    }

    /// Adds up to `n - 1` free frames after the caller has allocated one for a leaf. `n` is a
    /// 1024th of the pool's frames, but at most [`MOST`], and at most `next`.
    pub(super) fn stock_up(&self, claims: &Claims) {
        let most = (claims.pool.nr_frames() / 1024).clamp(1, MOST);
        let mut stock = lock(&self.stock);
        let nr = stock.next.map_or(most, |next| next.clamp(1, most));
        stock.nr_used += 1;
        stock.next = Some(2 * nr);
        drop(stock);
        let mut more = Vec::with_capacity(nr - 1);
        while more.len() < nr - 1 {
            let Some(frame) = claims.pool.alloc(Order::ZERO) else {
                break;
            };
            frame.discard();
            more.push(frame.into_withheld());
        }
        // The lowest frame is used first.
        more.reverse();
        lock(&self.stock).frames.append(&mut more);
    }

    pub(crate) fn drain(&self, claims: &Claims) {
        let mut stock = lock(&self.stock);
        if stock.nr_used != 0 {
            stock.next = Some(std::mem::take(&mut stock.nr_used));
        }
        let frames = std::mem::take(&mut stock.frames);
        drop(stock);
        for frame in frames {
            drop(raw::withheld(&claims.pool, frame));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::parts::Supply;

    // A 1024th of the pool is eight frames, the caller's included.
    const NR_FRAMES: usize = 8 << 10;

    fn create_leaves(supply: &Supply, nr: usize) -> usize {
        let stock = &supply.leaf_stock;
        for _ in 0..nr {
            if stock.take(&supply.claims).is_none() {
                stock.stock_up(&supply.claims);
            }
        }
        lock(&stock.stock).frames.len()
    }

    fn drain(supply: &Supply) {
        supply.leaf_stock.drain(&supply.claims);
        assert_eq!(supply.pool().stats().nr_available(), NR_FRAMES);
    }

    #[test]
    fn allocations_double_while_leaves_use_them_up() {
        let supply = Supply::of_frames(NR_FRAMES);
        assert_eq!(create_leaves(&supply, 1), 7);
        drain(&supply);
        // Allocations of 1, 2, 4, 8 and 8 frames.
        for (nr_leaves, nr_left) in [
            (1, 0),
            (1, 1),
            (1, 0),
            (1, 3),
            (3, 0),
            (1, 7),
            (7, 0),
            (1, 7),
        ] {
            assert_eq!(create_leaves(&supply, nr_leaves), nr_left);
        }
        drain(&supply);
        supply.pool().verify().unwrap();
    }

    #[test]
    fn first_allocation_after_a_close_is_as_large_as_the_use_before() {
        let supply = Supply::of_frames(NR_FRAMES);
        assert_eq!(create_leaves(&supply, 1), 7);
        drain(&supply);
        // The first file with three leaves needs a second allocation, and those after it do not.
        for nr_left in [0, 0, 0] {
            assert_eq!(create_leaves(&supply, 3), nr_left);
            drain(&supply);
            drain(&supply);
            assert_eq!(lock(&supply.leaf_stock.stock).next, Some(3));
        }
        assert_eq!(create_leaves(&supply, 1), 2);
        drain(&supply);
        assert_eq!(create_leaves(&supply, 1), 0);
        supply.pool().verify().unwrap();
    }

    /// An allocation that is partly used counts only by the leaves that used it.
    #[test]
    fn frames_that_no_leaf_used_do_not_count() {
        let supply = Supply::of_frames(NR_FRAMES);
        assert_eq!(create_leaves(&supply, 4), 4);
        drain(&supply);
        assert_eq!(create_leaves(&supply, 5), 7);
        drain(&supply);
        assert_eq!(lock(&supply.leaf_stock.stock).next, Some(5));
    }
}
