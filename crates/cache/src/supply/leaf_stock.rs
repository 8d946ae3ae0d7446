//! Frames for leaves, allocated several at a time.
//!
//! The memory of a leaf's frame is discarded ([`crate::index::file_index`]), which splits a huge
//! page. A large file that is read sequentially creates a leaf for every 512 pages; if these were
//! allocated one at a time, they would lie between the pages, and split every huge page. So a few
//! frames, contiguous if memory is not fragmented, are allocated at once and kept. If a request
//! finds no frame, or a file is closed, all of them are freed.
//!
//! Locks. The holder of the stock's lock acquires no other lock. The caller may hold a claim or a
//! leaf-creation lock.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, Order, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::index::claims::Claims;
use crate::supply::raw;

const MOST: usize = 64;

/// Frames whose memory is discarded, and which no leaf uses yet.
#[derive(Debug, Default)]
#[repr(align(128))] // Written by misses: shares no cache line with data that hits load.
pub(crate) struct LeafStock {
    frames: Mutex<Vec<FrameNr>>,
}

impl LeafStock {
    pub(super) fn take<'s, S: RefScheme>(
        &self,
        claims: &'s Claims<S>,
    ) -> Option<UniqueFrame<'s, S>> {
        let frame = lock(&self.frames).pop()?;
        Some(raw::withheld(claims, frame))
    }

    /// Adds up to `n - 1` free frames, where `n` is a 1024th of the pool's frames, but at most
    /// [`MOST`]. Small pools keep no stock.
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
        // The lowest frame is used first.
        more.reverse();
        lock(&self.frames).append(&mut more);
    }

    pub(crate) fn drain<S: RefScheme>(&self, claims: &Claims<S>) {
        let frames = std::mem::take(&mut *lock(&self.frames));
        for frame in frames {
            drop(raw::withheld(claims, frame));
        }
    }
}
