//! The memory that the cache uses outside of its frames, counted in frames all the same.
//!
//! What belongs to an open file but is not in a frame (its record, the part of its index's root that is
//! in use) is charged here in bytes. For every [`FRAME_BYTES`] charged, or begun, one frame of the
//! pool is withheld: allocated, its memory given back to the system, and used for nothing. So the
//! cache as a whole stays within its capacity.
//!
//! Locks. The budget's lock is taken with no other lock held, and frames are allocated without it.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, FrameNr, Order, UniqueFrame};
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

impl Budget {
    /// The frames that are withheld at the moment, in ascending order.
    pub(crate) fn withheld(&self) -> Vec<FrameNr> {
        let mut withheld = lock(&self.state).withheld.clone();
        withheld.sort_unstable();
        withheld
    }
}

impl<S: RefScheme> Shared<S> {
    /// Charges `bytes`; pages are evicted for them if need be.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), OutOfFrames> {
        // Frames that are allocated here are this call's own until the charge is met by them: calls at
        // the same time must neither use each other's, nor leave any of them behind. Those that turn out
        // not to be needed are freed when this is dropped, which is after the lock is released.
        let mut spare: Vec<UniqueFrame<'_, S>> = Vec::new();
        loop {
            {
                let mut state = lock(&self.budget.state);
                let nr_missing = state.nr_needed(bytes).saturating_sub(state.withheld.len());
                if nr_missing <= spare.len() {
                    let used = spare.drain(..nr_missing).map(UniqueFrame::into_withheld);
                    state.withheld.extend(used);
                    state.bytes += bytes;
                    return Ok(());
                }
            }
            let unique = self.alloc(Order::ZERO)?;
            unique.discard();
            spare.push(unique);
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
        assert_eq!(shared.pool.stats().nr_available(), 15);
        shared.charge(4096).unwrap();
        assert_eq!(shared.pool.stats().nr_available(), 14);
        shared.uncharge(100);
        assert_eq!(shared.pool.stats().nr_available(), 14);
        shared.uncharge(100);
        assert_eq!(shared.pool.stats().nr_available(), 15);
        shared.uncharge(4096);
        assert_eq!(shared.pool.stats().nr_available(), 16);
        shared.pool.verify().unwrap();
    }

    #[test]
    fn a_charge_that_cannot_be_met_changes_nothing() {
        let shared = shared(16);
        shared.charge(4096).unwrap();
        assert!(shared.charge(16 * 4096).is_err());
        assert_eq!(shared.pool.stats().nr_available(), 15);
        shared.uncharge(4096);
        assert_eq!(shared.pool.stats().nr_available(), 16);
    }

    /// Eight files that were opened at the same moment left a cache with 61 of 64 frames: each charge had
    /// withheld a frame, one would have done for all, and only a charge that failed gave back what was
    /// too much. Frames that a charge does not need now never become withheld.
    #[test]
    fn charges_at_the_same_moment_withhold_no_more_than_one_after_the_other() {
        const THREADS: usize = 8;
        let shared = shared(64);
        let barrier = std::sync::Barrier::new(THREADS);
        for _ in 0..50 {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        barrier.wait();
                        shared.charge(100).unwrap();
                    });
                }
            });
            assert_eq!(shared.pool.stats().nr_available(), 63);
            shared.uncharge(100 * THREADS);
            assert_eq!(shared.pool.stats().nr_available(), 64);
        }
        shared.pool.verify().unwrap();
    }
}
