//! Contiguous frames as one handle.

use std::fmt;
use std::mem::ManuallyDrop;

use pagewell_sync::bytes::RacySource;

use super::frame_pool::FramePool;
use super::handle::{FrameRef, TryGetFrame, UniqueFrame};
use crate::count::RefScheme;
use crate::raw::{self, FreeError, FreeRange};
use crate::words::{FRAME_BYTES, FrameNr, Order};

/// Contiguous frames, each with a reference of its own, which are this handle's: a block that was split.
///
/// Dropping it gives all of them back; those to which others hold references are freed by the last of them.
pub struct FrameRange<'p, S: RefScheme> {
    pool: &'p FramePool<S>,
    first: FrameNr,
    nr: usize,
}

impl<'p, S: RefScheme> UniqueFrame<'p, S> {
    /// Splits the block into single frames.
    pub fn split(self) -> FrameRange<'p, S> {
        let (pool, first, order) = (self.pool(), self.frame(), self.order());
        let _ = self.into_withheld();
        raw::split_locked(pool.lists(), first, order);
        FrameRange {
            pool,
            first,
            nr: order.frames() as usize,
        }
    }
}

impl<'p, S: RefScheme> FrameRange<'p, S> {
    /// The first frame.
    pub fn first(&self) -> FrameNr {
        self.first
    }

    /// How many frames there are: at least one.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.nr
    }

    /// A further reference to the frame at position `at`, e.g. for a reader of it; none if there is no such
    /// frame, or it has as many references as it can count.
    pub fn get(&self, at: usize) -> Option<FrameRef<'p, S>> {
        if at >= self.nr {
            return None;
        }
        match self
            .pool
            .try_get(FrameNr::new(self.first.get() + at as u32))
        {
            TryGetFrame::Taken(reference) => Some(reference),
            TryGetFrame::Locked | TryGetFrame::Saturated => None,
        }
    }

    /// The bytes of all frames: to be read only, since frames of the range may have been freed by their numbers, and be
    /// somebody else's. Who wants to write takes a reference ([`get`](Self::get), [`FrameRef::raw_bytes`]).
    pub fn bytes(&self) -> RacySource<'_> {
        self.pool.bytes(self.first, self.nr * FRAME_BYTES)
    }

    /// Cuts the range in two: this one keeps the first `at` frames. None, and nothing is changed, unless
    /// both have some.
    pub fn split_off(&mut self, at: usize) -> Option<Self> {
        if at == 0 || at >= self.nr {
            return None;
        }
        let rest = Self {
            pool: self.pool,
            first: FrameNr::new(self.first.get() + at as u32),
            nr: self.nr - at,
        };
        self.nr = at;
        Some(rest)
    }

    /// Gives all frames back. Returns how many are not free, because others hold references to them.
    ///
    /// # Errors
    ///
    /// [`FreeError`], when frames of the range were freed by their numbers meanwhile. The others stay allocated
    /// then, each owned by its number.
    pub fn free(self, strategy: FreeRange) -> Result<usize, FreeError> {
        let pool = self.pool;
        let (first, nr) = self.into_raw();
        pool.free_contig_range_by(first, nr, strategy)
    }

    /// The first number, and how many frames there are; they stay allocated, each owned by its number.
    pub fn into_raw(self) -> (FrameNr, usize) {
        let this = ManuallyDrop::new(self);
        (this.first, this.nr)
    }
}

impl<S: RefScheme> Drop for FrameRange<'_, S> {
    fn drop(&mut self) {
        // What was freed by its number meanwhile is free already; the rest is given back frame by frame.
        if self.pool.free_contig_range(self.first, self.nr).is_err() {
            for at in 0..self.nr as u32 {
                let _ = self
                    .pool
                    .free(FrameNr::new(self.first.get() + at), Order::ZERO);
            }
        }
    }
}

impl<S: RefScheme> fmt::Debug for FrameRange<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameRange({:?}, {} frames)", self.first, self.nr)
    }
}
