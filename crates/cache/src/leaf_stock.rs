//! Frames for leaves, several at a time.
//!
//! The memory of a leaf's frame is given back to the system (see [`crate::index`]), which takes a huge page
//! apart if the frame is in one. A large file that is read from start to end takes a leaf into use after every
//! 512 pages; taken one at a time, their frames would lie in between the pages, and take every huge page
//! apart. So a few frames are allocated at once, which are neighbours as long as memory is not fragmented,
//! and kept until they are wanted.
//!
//! Locks. The stock's lock is taken with no other lock held.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::raw;
use crate::reclaim::OutOfFrames;
use crate::shared::Shared;

/// The most frames that are allocated at once.
const MOST: usize = 64;

/// Frames whose memory was given back, and which no leaf has yet.
#[derive(Debug, Default)]
pub(crate) struct LeafStock {
    frames: Mutex<Vec<FrameNr>>,
}

impl<S: RefScheme> Shared<S> {
    /// A frame whose record is to be a leaf's, and whose memory the leaf's slots use up elsewhere.
    pub(crate) fn alloc_leaf_frame(&self) -> Result<UniqueFrame<'_, S>, OutOfFrames> {
        let in_stock = lock(&self.leaf_stock.frames).pop();
        if let Some(frame) = in_stock {
            return Ok(raw::withheld(self, frame));
        }
        let first = self.alloc(Order::ZERO)?;
        first.discard();
        // A thousandth of the pool at the most; small pools keep no stock.
        let nr_more = (self.pool.nr_frames() / 1024).clamp(1, MOST) - 1;
        let mut more = Vec::with_capacity(nr_more);
        while more.len() < nr_more {
            let Some(frame) = self.pool.alloc(Order::ZERO) else {
                break;
            };
            frame.discard();
            more.push(frame.into_withheld());
        }
        // The lowest is used first.
        more.reverse();
        lock(&self.leaf_stock.frames).append(&mut more);
        Ok(first)
    }

    /// Gives the stock back to the pool.
    pub(crate) fn drain_leaf_stock(&self) {
        let frames = std::mem::take(&mut *lock(&self.leaf_stock.frames));
        for frame in frames {
            drop(raw::withheld(self, frame));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FramePool, PoolConfig};

    fn shared(nr_frames: usize) -> Shared<LockBit> {
        Shared::new(FramePool::new(&PoolConfig::new(nr_frames)).unwrap())
    }

    #[test]
    fn a_large_pool_keeps_neighbours_in_stock_and_gives_them_back() {
        let shared = shared(16 * 1024);
        let frames: Vec<_> = (0..16)
            .map(|_| shared.alloc_leaf_frame().unwrap())
            .collect();
        assert_eq!(shared.pool.stats().nr_available(), 16 * 1024 - 16);
        for pair in frames.windows(2) {
            assert_eq!(pair[1].frame().get(), pair[0].frame().get() + 1);
        }
        let next = shared.alloc_leaf_frame().unwrap();
        assert_eq!(shared.pool.stats().nr_available(), 16 * 1024 - 32);
        drop((frames, next));
        shared.drain_leaf_stock();
        assert_eq!(shared.pool.stats().nr_available(), 16 * 1024);
        shared.pool.verify().unwrap();
    }

    #[test]
    fn a_small_pool_keeps_none() {
        let shared = shared(64);
        let frame = shared.alloc_leaf_frame().unwrap();
        assert_eq!(shared.pool.stats().nr_available(), 63);
        drop(frame);
        assert_eq!(shared.pool.stats().nr_available(), 64);
    }
}
