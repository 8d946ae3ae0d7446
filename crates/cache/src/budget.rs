//! The memory that the cache uses outside of its frames, counted in frames all the same.
//!
//! What belongs to an open file but is not in a frame (its record, the part of its index's root that is
//! in use) is charged here in bytes. For every [`FRAME_BYTES`] charged, or begun, one frame of the
//! pool is withheld: allocated, its memory given back to the system, and used for nothing. So the
//! cache as a whole stays within its capacity.
//!
//! Locks. The budget's lock is taken with no other lock held, and frames are allocated without it.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, FrameNr, Order};
use pagewell_sync::{Mutex, lock};

use crate::raw;
use crate::reclaim::OutOfFrames;
use crate::shared::Shared;

/// What is charged, and the frames withheld for it.
#[derive(Debug, Default)]
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

impl<S: RefScheme> Shared<S> {
    /// Charges `bytes`; pages are evicted for them if need be.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), OutOfFrames> {
        let mut spare: Vec<FrameNr> = Vec::new();
        loop {
            {
                let mut state = lock(&self.budget.state);
                state.withheld.append(&mut spare);
                if state.nr_needed(bytes) <= state.withheld.len() {
                    state.bytes += bytes;
                    return Ok(());
                }
            }
            match self.alloc(Order::ZERO) {
                Ok(unique) => {
                    unique.discard();
                    spare.push(unique.into_withheld());
                }
                Err(out_of_frames) => {
                    // Frames that were withheld on the way are given back.
                    self.uncharge(0);
                    return Err(out_of_frames);
                }
            }
        }
    }

    /// Takes back a charge of `bytes`.
    pub(crate) fn uncharge(&self, bytes: usize) {
        let surplus = {
            let mut state = lock(&self.budget.state);
            debug_assert!(bytes <= state.bytes);
            state.bytes = state.bytes.saturating_sub(bytes);
            let nr_kept = state.nr_needed(0).min(state.withheld.len());
            state.withheld.split_off(nr_kept)
        };
        for frame in surplus {
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
    fn charges_are_rounded_up_together_and_come_back() {
        let shared = shared(16);
        shared.charge(100).unwrap();
        shared.charge(100).unwrap();
        assert_eq!(shared.pool.stats().nr_free, 15);
        shared.charge(4096).unwrap();
        assert_eq!(shared.pool.stats().nr_free, 14);
        shared.uncharge(100);
        assert_eq!(shared.pool.stats().nr_free, 14);
        shared.uncharge(100);
        assert_eq!(shared.pool.stats().nr_free, 15);
        shared.uncharge(4096);
        assert_eq!(shared.pool.stats().nr_free, 16);
        shared.pool.verify().unwrap();
    }

    #[test]
    fn a_charge_that_cannot_be_met_changes_nothing() {
        let shared = shared(16);
        shared.charge(4096).unwrap();
        assert!(shared.charge(16 * 4096).is_err());
        assert_eq!(shared.pool.stats().nr_free, 15);
        shared.uncharge(4096);
        assert_eq!(shared.pool.stats().nr_free, 16);
    }
}
