//! How many frames may be on their way into the cache at once.
//!
//! A fill has frames that nobody can evict: the page's, its neighbours', the leaf's. Without a bound,
//! many fills together could hold the whole pool, each of them waiting for one more frame. So a fill first takes
//! a permit, while it holds nothing else, and sleeps until there is one. All permits together are for
//! three quarters of the pool; a fill that needs more than the stock has goes when no other has any of it.
//!
//! Half of these are divided among the shards of the threads: a fill takes its permit there, on a line of its own, as long as there
//! are any. The other half is one stock, behind a lock, for who finds none in its shard. (A small pool has only the stock.)
//!
//! One file may have permits of the stock for as many frames as all leave free, so half of those at the most (see `dirty::pressure`,
//! which divides dirty frames likewise). So the readers of a file whose storage hangs may use up a shard, and then wait for each
//! other; those of other files take from the stock, and do not wait for them.
//!
//! Locks. The lock is taken with no other lock held.

use std::sync::PoisonError;
#[cfg(not(loom))]
use std::time::Duration;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::shard::Shards;
use pagewell_sync::{Condvar, Mutex, MutexGuard, lock};

/// The number of frames for which permits are out.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// How many frames the permits of each shard are for.
    shards: Shards<AtomicUsize>,
    /// The most that those of one shard are for.
    most_of_shard: usize,
    stock: Stock,
}

/// A shard is of use if its permits are for so many frames at the least: some fills with their neighbours.
const LEAST_OF_SHARD: usize = 64;

/// After how long a thread that waits for the stock looks at its shard again.
#[cfg(not(loom))]
const MOMENT: Duration = Duration::from_millis(5);

/// The permits that are taken with the lock in hand.
#[derive(Debug)]
#[repr(align(128))] // Written by misses: no line with what others load.
struct Stock {
    state: Mutex<State>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    nr_frames: usize,
    nr_waiters: usize,
}

/// The number of frames of one file for which permits of the stock are out.
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
    shard: usize,
    /// How many of the frames are counted in the shard, and how many in the stock.
    nr_of_shard: usize,
    nr_of_stock: usize,
}

impl InFlight {
    /// For a pool of `nr_frames`.
    pub(crate) fn new(nr_frames: usize) -> Self {
        let shards = Shards::new();
        let all = nr_frames - nr_frames / 4;
        let most_of_shard = match all / 2 / shards.iter().len() {
            most if most < LEAST_OF_SHARD || cfg!(loom) => 0,
            most => most,
        };
        let most = all - most_of_shard * shards.iter().len();
        Self {
            shards,
            most_of_shard,
            stock: Stock {
                state: Mutex::default(),
                returned: Condvar::default(),
                most,
            },
        }
    }

    /// How many threads wait for a permit.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn nr_waiters(&self) -> usize {
        lock(&self.stock.state).nr_waiters
    }

    /// All permits there are, when none is out.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn all<'s>(&'s self, of_file: &'s OfFile) -> Vec<Permit<'s>> {
        let of_shards = (0..self.shards.iter().len()).map(|shard| {
            let mut permit = Permit {
                in_flight: self,
                of_file,
                shard,
                nr_of_shard: 0,
                nr_of_stock: 0,
            };
            permit.try_extend_in_shard(self.most_of_shard);
            permit
        });
        let mut all: Vec<_> = of_shards.collect();
        all.push(self.permit(of_file, self.stock.most));
        all
    }

    /// A permit of a file for `nr_frames`; waits until they are within the bounds, or no other permit of the stock is out.
    pub(crate) fn permit<'s>(&'s self, of_file: &'s OfFile, nr_frames: usize) -> Permit<'s> {
        let mut permit = Permit {
            in_flight: self,
            of_file,
            shard: self.shards.own(),
            nr_of_shard: 0,
            nr_of_stock: 0,
        };
        let in_shard = || permit.try_extend_in_shard(nr_frames);
        if self.stock.take_unless(in_shard, of_file, nr_frames) {
            permit.nr_of_stock = nr_frames;
        }
        permit
    }

    /// As [`permit`](Self::permit), if they are within the bounds now.
    #[cfg(not(loom))]
    pub(crate) fn try_permit<'s>(
        &'s self,
        of_file: &'s OfFile,
        nr_frames: usize,
    ) -> Option<Permit<'s>> {
        let mut permit = Permit {
            in_flight: self,
            of_file,
            shard: self.shards.own(),
            nr_of_shard: 0,
            nr_of_stock: 0,
        };
        permit.try_extend(nr_frames).then_some(permit)
    }
}

impl Stock {
    /// Whether a file with `of_file` may have `nr_frames` more, besides the first that it has.
    fn fits(&self, state: &State, of_file: &OfFile, nr_frames: usize) -> bool {
        let free = self.most.saturating_sub(state.nr_frames);
        let is_within_share = of_file.nr() == 0 || of_file.nr() + nr_frames <= free;
        nr_frames <= free && is_within_share
    }

    /// Takes permits for `nr_frames`, and waits until there are any; unless they are to be had elsewhere, now or later. Returns whether
    /// it took them.
    fn take_unless(
        &self,
        mut elsewhere: impl FnMut() -> bool,
        of_file: &OfFile,
        nr_frames: usize,
    ) -> bool {
        if elsewhere() {
            return false;
        }
        let mut state = lock(&self.state);
        while state.nr_frames != 0 && !self.fits(&state, of_file, nr_frames) {
            state.nr_waiters += 1;
            state = self.wait(state);
            state.nr_waiters -= 1;
            if elsewhere() {
                return false;
            }
        }
        state.nr_frames += nr_frames;
        of_file.set(of_file.nr() + nr_frames);
        true
    }

    /// Waits until permits were given back, or for a moment: a shard tells nobody of those that it has again.
    #[cfg(not(loom))]
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.returned.wait_timeout(state, MOMENT);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A model has no shards, and no time.
    #[cfg(loom)]
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.returned.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes permits for `nr_frames`, if they are within the bounds now.
    fn try_take(&self, of_file: &OfFile, nr_frames: usize) -> bool {
        let mut state = lock(&self.state);
        let fits = self.fits(&state, of_file, nr_frames);
        if fits {
            state.nr_frames += nr_frames;
            of_file.set(of_file.nr() + nr_frames);
        }
        fits
    }

    fn give_back(&self, of_file: &OfFile, nr_frames: usize) {
        let mut state = lock(&self.state);
        state.nr_frames -= nr_frames;
        of_file.set(of_file.nr() - nr_frames);
        let someone_waits = state.nr_waiters != 0;
        drop(state);
        if someone_waits {
            self.returned.notify_all();
        }
    }
}

impl Permit<'_> {
    /// Adds `nr_frames` to the permit, if they are within the bounds now.
    pub(crate) fn try_extend(&mut self, nr_frames: usize) -> bool {
        if self.try_extend_in_shard(nr_frames) {
            return true;
        }
        let fits = self.in_flight.stock.try_take(self.of_file, nr_frames);
        if fits {
            self.nr_of_stock += nr_frames;
        }
        fits
    }

    fn try_extend_in_shard(&mut self, nr_frames: usize) -> bool {
        let (count, most) = (self.count(), self.in_flight.most_of_shard);
        if most == 0 {
            return false;
        }
        // ORDERING: Relaxed; a bound on a sum, which needs no more than that each change is one.
        let before = count.fetch_add(nr_frames, Ordering::Relaxed);
        let fits = before + nr_frames <= most;
        if fits {
            self.nr_of_shard += nr_frames;
        } else {
            // ORDERING: Relaxed; as above. Another thread of the shard may have found no room meanwhile: it takes from the stock.
            count.fetch_sub(nr_frames, Ordering::Relaxed);
        }
        fits
    }

    /// What the frames of this permit's shard are counted in.
    fn count(&self) -> &AtomicUsize {
        self.in_flight.shards.get(self.shard)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.nr_of_shard != 0 {
            // ORDERING: Relaxed; as in `try_extend_in_shard`.
            self.count().fetch_sub(self.nr_of_shard, Ordering::Relaxed);
        }
        if self.nr_of_stock != 0 {
            let stock = &self.in_flight.stock;
            stock.give_back(self.of_file, self.nr_of_stock);
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
        assert_eq!(lock(&in_flight.stock.state).nr_frames, 100);
        drop(alone);
        assert_eq!(lock(&in_flight.stock.state).nr_frames, 0);
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

    /// Permits of the shards are not divided by file: a file that has all of a shard leaves the stock to others.
    #[test]
    fn a_file_that_uses_up_its_shard_leaves_the_stock_to_others() {
        let in_flight = InFlight::new(1 << 20);
        let files: [OfFile; 2] = Default::default();
        let nr_stock = || lock(&in_flight.stock.state).nr_frames;
        let first = in_flight.permit(&files[0], in_flight.most_of_shard);
        assert_eq!(nr_stock(), 0, "it was in the shard");
        let mut most = in_flight.permit(&files[0], 1);
        while most.try_extend(1024) {}
        assert_eq!(nr_stock(), files[0].nr());
        assert!(nr_stock() <= in_flight.stock.most / 2 + 1);
        let other = in_flight.permit(&files[1], 1000);
        assert_eq!(files[1].nr(), 1000);
        drop((first, most, other));
        assert_eq!(nr_stock(), 0);
        let again = in_flight.permit(&files[0], 1);
        assert_eq!((again.nr_of_shard, again.nr_of_stock), (1, 0));
    }

    #[test]
    fn a_permit_that_is_given_back_wakes_who_waits() {
        let in_flight = InFlight::new(4);
        let files: [OfFile; 2] = Default::default();
        let first = in_flight.permit(&files[0], 3);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(in_flight.permit(&files[1], 2)));
            while lock(&in_flight.stock.state).nr_waiters == 0 {
                std::thread::yield_now();
            }
            drop(first);
            second.join().unwrap();
        });
    }
}
