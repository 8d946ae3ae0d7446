//! How many frames may be on their way into the cache at once.
//!
//! A fill has frames that nobody can evict: the page's, its neighbours', the leaf's. Were there no bound,
//! many fills together could hold the whole pool, each of them waiting for one more frame. So a fill takes
//! a permit first, while it holds nothing else, and sleeps until there is one. Together they are for
//! three quarters of the pool; a fill that needs more than that goes alone.
//!
//! Locks. The lock is taken with no other lock held.

use pagewell_sync::{Condvar, Mutex, lock};

/// The frames for which permits are out.
#[derive(Debug)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    nr_frames: usize,
    nr_waiters: usize,
}

/// The right to have so many frames in flight.
#[derive(Debug)]
pub(crate) struct Permit<'s> {
    in_flight: &'s InFlight,
    nr_frames: usize,
}

impl InFlight {
    /// For a pool of `nr_frames`.
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            state: Mutex::default(),
            returned: Condvar::default(),
            most: nr_frames - nr_frames / 4,
        }
    }

    /// A permit for `nr_frames`; waits until they are within the bound, or nobody else has any.
    pub(crate) fn permit(&self, nr_frames: usize) -> Permit<'_> {
        let mut state = lock(&self.state);
        while state.nr_frames != 0 && state.nr_frames + nr_frames > self.most {
            state.nr_waiters += 1;
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state.nr_waiters -= 1;
        }
        state.nr_frames += nr_frames;
        Permit {
            in_flight: self,
            nr_frames,
        }
    }
}

impl Permit<'_> {
    /// Adds `nr_frames` to the permit, if they are within the bound now.
    pub(crate) fn try_extend(&mut self, nr_frames: usize) -> bool {
        let mut state = lock(&self.in_flight.state);
        let fits = state.nr_frames + nr_frames <= self.in_flight.most;
        if fits {
            state.nr_frames += nr_frames;
            self.nr_frames += nr_frames;
        }
        fits
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.in_flight.state);
        state.nr_frames -= self.nr_frames;
        let someone_waits = state.nr_waiters != 0;
        drop(state);
        if someone_waits {
            self.in_flight.returned.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn permits_stop_at_three_quarters_and_one_always_goes() {
        let in_flight = InFlight::new(16);
        let mut first = in_flight.permit(8);
        assert!(first.try_extend(4));
        assert!(!first.try_extend(1));
        drop(first);
        let alone = in_flight.permit(100);
        assert_eq!(lock(&in_flight.state).nr_frames, 100);
        drop(alone);
        assert_eq!(lock(&in_flight.state).nr_frames, 0);
    }

    #[test]
    fn a_permit_that_is_given_back_wakes_who_waits() {
        let in_flight = InFlight::new(4);
        let first = in_flight.permit(3);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(in_flight.permit(2)));
            while lock(&in_flight.state).nr_waiters == 0 {
                std::thread::yield_now();
            }
            drop(first);
            second.join().unwrap();
        });
    }
}
