//! How many frames may be on their way into the cache at once.
//!
//! A fill has frames that nobody can evict: the page's, its neighbours', the leaf's. Without a bound,
//! many fills together could hold the whole pool, each of them waiting for one more frame. So a fill first takes
//! a permit, while it holds nothing else, and sleeps until there is one. All permits together are for
//! three quarters of the pool; a fill that needs more than that goes alone.
//!
//! One file may have permits for as many frames as all leave free, so half of those at the most (see `dirty::pressure`, which
//! divides dirty frames likewise). So the readers of a file whose storage hangs wait for each other, and those of other files do not
//! wait for them.
//!
//! Locks. The lock is taken with no other lock held.

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Condvar, Mutex, lock};

/// The number of frames for which permits are out.
#[derive(Debug)]
#[repr(align(128))] // Written by misses: no line with what hits load.
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

/// The number of frames of one file for which permits are out.
#[derive(Debug, Default)]
pub(crate) struct OfFile(AtomicUsize);

impl OfFile {
    fn nr(&self) -> usize {
        // ORDERING: Relaxed, here and below; the number is loaded and stored with the lock in hand.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, nr: usize) {
        self.0.store(nr, Ordering::Relaxed);
    }
}

/// The right to have so many frames in flight.
#[derive(Debug)]
pub(crate) struct Permit<'s> {
    in_flight: &'s InFlight,
    of_file: &'s OfFile,
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

    /// How many threads wait for a permit.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn nr_waiters(&self) -> usize {
        lock(&self.state).nr_waiters
    }

    /// Whether a file with `of_file` may have `nr_frames` more, besides the first that it has.
    fn fits(&self, state: &State, of_file: &OfFile, nr_frames: usize) -> bool {
        let free = self.most.saturating_sub(state.nr_frames);
        let is_within_share = of_file.nr() == 0 || of_file.nr() + nr_frames <= free;
        nr_frames <= free && is_within_share
    }

    /// A permit of a file for `nr_frames`; waits until they are within the bounds, or no other permit is out.
    pub(crate) fn permit<'s>(&'s self, of_file: &'s OfFile, nr_frames: usize) -> Permit<'s> {
        let mut state = lock(&self.state);
        while state.nr_frames != 0 && !self.fits(&state, of_file, nr_frames) {
            state.nr_waiters += 1;
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state.nr_waiters -= 1;
        }
        state.nr_frames += nr_frames;
        of_file.set(of_file.nr() + nr_frames);
        Permit {
            in_flight: self,
            of_file,
            nr_frames,
        }
    }
}

impl Permit<'_> {
    /// Adds `nr_frames` to the permit, if they are within the bounds now.
    pub(crate) fn try_extend(&mut self, nr_frames: usize) -> bool {
        let mut state = lock(&self.in_flight.state);
        let fits = self.in_flight.fits(&state, self.of_file, nr_frames);
        if fits {
            state.nr_frames += nr_frames;
            self.of_file.set(self.of_file.nr() + nr_frames);
            self.nr_frames += nr_frames;
        }
        fits
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.in_flight.state);
        state.nr_frames -= self.nr_frames;
        self.of_file.set(self.of_file.nr() - self.nr_frames);
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
        let files: [OfFile; 2] = Default::default();
        let first = in_flight.permit(&files[0], 8);
        let mut second = in_flight.permit(&files[1], 2);
        assert!(second.try_extend(0));
        assert!(!second.try_extend(3), "more than three quarters");
        drop((first, second));
        let alone = in_flight.permit(&files[0], 100);
        assert_eq!(lock(&in_flight.state).nr_frames, 100);
        drop(alone);
        assert_eq!(lock(&in_flight.state).nr_frames, 0);
        assert_eq!(files.map(|file| file.nr()), [0, 0]);
    }

    #[test]
    fn a_file_leaves_as_much_to_others_as_it_has() {
        let in_flight = InFlight::new(64);
        let files: [OfFile; 3] = Default::default();
        let most = |file| {
            let mut permit = in_flight.permit(file, 1);
            while permit.try_extend(1) {}
            permit
        };
        let permits = files.each_ref().map(most);
        assert_eq!(files.each_ref().map(OfFile::nr), [24, 12, 6]);
        drop(permits);
    }

    #[test]
    fn a_permit_that_is_given_back_wakes_who_waits() {
        let in_flight = InFlight::new(4);
        let files: [OfFile; 2] = Default::default();
        let first = in_flight.permit(&files[0], 3);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(in_flight.permit(&files[1], 2)));
            while lock(&in_flight.state).nr_waiters == 0 {
                std::thread::yield_now();
            }
            drop(first);
            second.join().unwrap();
        });
    }
}
