//! Memory that the cache uses outside of its frames, counted in frames.
//!
//! This module charges, in bytes, the parts of an open file that are not in a frame: the state of
//! the file, the bounce buffers for its page codec, and the memory that its leaves share
//! ([`crate::index::extents`]). For every [`FRAME_BYTES`] charged, rounded up, one frame of the
//! pool is *withheld*: allocated, discarded and not used. So the cache stays within its capacity.
//!
//! Locks. The holder of the budget's lock waits for nothing, and neither allocates nor frees
//! frames. The caller may hold claims and locks of files.

use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, FrameNr, UniqueFrame};
use pagewell_sync::{Mutex, lock};

use crate::index::claim::Claims;
use crate::index::raw;

#[derive(Debug, Default)]
#[repr(align(128))] // Written by misses: shares no cache line with data that hits load.
pub(crate) struct Budget {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    withheld: Vec<FrameNr>,
}

impl State {
    fn nr_needed(&self, more: usize) -> usize {
        (self.bytes + more).div_ceil(FRAME_BYTES)
    }
}

impl Budget {
    pub(crate) fn withheld(&self) -> Vec<FrameNr> {
        let mut withheld = lock(&self.state).withheld.clone();
        withheld.sort_unstable();
        withheld
    }

    pub(crate) fn nr_withheld(&self, frames: &Range<u32>) -> usize {
        let state = lock(&self.state);
        let within = |frame: &&FrameNr| frames.contains(&frame.get());
        state.withheld.iter().filter(within).count()
    }

    /// Charges `bytes`, and withholds frames that it removes from `spare`. If these do not suffice,
    /// charges nothing and returns `false`.
    pub(super) fn try_charge(&self, bytes: usize, spare: &mut Vec<UniqueFrame<'_>>) -> bool {
        let mut state = lock(&self.state);
        let nr_missing = state.nr_needed(bytes).saturating_sub(state.withheld.len());
        if nr_missing > spare.len() {
            return false;
        }
        let used = spare.drain(..nr_missing).map(UniqueFrame::into_withheld);
        state.withheld.extend(used);
        state.bytes += bytes;
        true
    }

    /// Frees surplus frames after the lock is released.
    pub(super) fn uncharge(&self, claims: &Claims, bytes: usize) {
        let surplus = {
            let mut state = lock(&self.state);
            debug_assert!(bytes <= state.bytes);
            state.bytes = state.bytes.saturating_sub(bytes);
            let nr_kept = state.nr_needed(0).min(state.withheld.len());
            state.withheld.split_off(nr_kept)
        };
        for frame in surplus {
            drop(raw::withheld(&claims.pool, frame));
        }
    }
}
