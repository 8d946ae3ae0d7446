//! Frames for leaves, several at a time.
//!
//! The memory of a leaf's frame is given back to the system (see [`crate::index::file_index`]), which takes a huge page
//! apart if the frame is in one. A large file that is read from start to end takes a leaf into use after every
//! 512 pages. If their frames were taken one at a time, they would lie in between the pages, and take every huge page
//! apart. So a few frames are allocated at once and kept until they are needed; as long as memory is not fragmented,
//! they are neighbours.
//!
//! Locks. Nothing is taken or waited for under the stock's lock. Its callers may have a claim, or the lock of the maker of a leaf.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::index::claims::Claims;
use crate::supply::raw;

/// The most frames that are allocated at once.
const MOST: usize = 64;

/// Frames whose memory was given back, and which no leaf has yet.
#[derive(Debug, Default)]
#[repr(align(128))] // Written by misses: no line with what hits load.
pub(crate) struct LeafStock {
    frames: Mutex<Vec<FrameNr>>,
}

impl LeafStock {
    /// A frame of the stock, if there is one.
    pub(super) fn take<'s, S: RefScheme>(
        &self,
        claims: &'s Claims<S>,
    ) -> Option<UniqueFrame<'s, S>> {
        let frame = lock(&self.frames).pop()?;
        Some(raw::withheld(claims, frame))
    }

    /// Stocks up with free frames, as far as there are any: a thousandth of the pool at the most. Small pools keep no stock.
    pub(super) fn stock_up<S: RefScheme>(&self, claims: &Claims<S>) {
        let nr_more = (claims.pool.nr_frames() / 1024).clamp(1, MOST) - 1;
        let mut more = Vec::with_capacity(nr_more);
        while more.len() < nr_more {
            let Some(frame) = claims.pool.alloc(Order::ZERO) else {
                break;
            };
            frame.discard();
            more.push(frame.into_withheld());
        }
        // The lowest is used first.
        more.reverse();
        lock(&self.frames).append(&mut more);
    }

    /// Gives the stock back to the pool.
    pub(crate) fn drain<S: RefScheme>(&self, claims: &Claims<S>) {
        let frames = std::mem::take(&mut *lock(&self.frames));
        for frame in frames {
            drop(raw::withheld(claims, frame));
        }
    }
}
