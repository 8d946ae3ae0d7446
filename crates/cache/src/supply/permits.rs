//! Budget reservations: the limit of frames that may be in flight into the cache.
//!
//! Without a limit, many fills together could hold the whole pool, each waiting for one more frame.
//! So before a fill holds a claim or a frame, it acquires a reservation for the page and the leaf:
//! it sleeps until the reservation is granted, or fails if it must not wait. Later it may extend
//! the reservation for neighbours, without waiting. With two exceptions, all reservations together
//! cover at most three quarters of the pool. A fill that needs more than all the shared credit
//! waits until no reservation uses it, and exceeds the limit. The other exception is stated below.
//!
//! Half of the credit is divided among the *shards* of the threads. A fill reserves in its thread's
//! shard, which has a cache line of its own, as long as the shard has credit. The other half, or
//! all in a small pool, is *shared credit* (`Stock`) behind a lock.
//!
//! The quota of one file is the shared credit that all files together leave free. So one file can
//! use at most half of the shared credit, plus half of its last reservation; a larger first
//! reservation is allowed. (`dirty::pressure` divides dirty frames likewise.) If a backend hangs,
//! its file's readers may use up their shards and the file's quota; readers of other files use the
//! rest of the shared credit. In a small pool, or beside many backends that hang, this rest may be
//! too small for a single fill. If its file has reserved no shared credit, the fill therefore
//! exceeds the limit after a wait of 0.9 s, as long as all such fills together exceed it by at most
//! an eighth of the pool. Its allocations then find a frame, or fail.
//!
//! Locks. A thread waits for a reservation ([`InFlight::permit`]) with no claim held, but possibly
//! with locks of files. The lock of the shared credit is a short lock, which a fill with claims
//! acquires to extend or release its reservation.

use std::sync::PoisonError;
use std::time::Duration;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::ledger::{self, Resource};
use pagewell_sync::scaled;
use pagewell_sync::shard::Shards;
use pagewell_sync::time::Instant;
use pagewell_sync::{Condvar, Mutex, MutexGuard, lock};

use crate::supply::transfers::LONGEST;

#[derive(Debug)]
pub(crate) struct InFlight {
    /// Number of frames reserved in each shard.
    shards: Shards<AtomicUsize>,
    most_of_shard: usize,
    stock: Stock,
}

/// Minimum credit of a shard in frames: enough for some fills. Below it, all credit is shared.
const LEAST_OF_SHARD: usize = scaled(64, usize::MAX);

/// Interval at which a thread that waits for shared credit checks its shard.
const MOMENT: Duration = Duration::from_millis(5);

#[derive(Debug)]
#[repr(align(128))] // Written by misses: shares no cache line with data that other code loads.
struct Stock {
    state: Mutex<State>,
    returned: Condvar,
    most: usize,
    /// Number of frames by which fills that have waited for too long may exceed `most`.
    most_excess: usize,
}

#[derive(Debug, Default)]
struct State {
    nr_frames: usize,
    nr_waiters: usize,
}

#[derive(Debug, Default)]
pub(crate) struct OfFile(AtomicUsize);

impl OfFile {
    fn nr(&self) -> usize {
        // ORDERING: Relaxed, here and below; the number is accessed with the lock held.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, nr: usize) {
        self.0.store(nr, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Permit<'s> {
    in_flight: &'s InFlight,
    of_file: &'s OfFile,
    shard: usize,
    nr_of_shard: usize,
    nr_of_stock: usize,
}

impl InFlight {
    pub(crate) fn new(nr_frames: usize) -> Self {
        let shards = Shards::new();
        let all = nr_frames - nr_frames / 4;
        let most_of_shard = match all / 2 / shards.iter().len() {
            most if most < LEAST_OF_SHARD => 0,
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
                most_excess: nr_frames / 8,
            },
        }
    }

    #[cfg(test)]
    pub(crate) fn nr_waiters(&self) -> usize {
        lock(&self.stock.state).nr_waiters
    }

    /// The caller ensures that no reservation exists.
    #[cfg(test)]
    pub(crate) fn all<'s>(&'s self, of_file: &'s OfFile) -> Vec<Permit<'s>> {
        let of_shards = (0..self.shards.iter().len()).map(|shard| {
            let mut permit = self.empty_permit(of_file, shard);
            permit.try_extend_in_shard(self.most_of_shard);
            permit
        });
        let mut all: Vec<_> = of_shards.collect();
        // Also uses up the excess that fills may reserve after a long wait.
        all.push(self.permit(of_file, self.stock.most + self.stock.most_excess));
        all
    }

    /// Waits until `nr_frames` are within the limits, or no shared credit is reserved, or for 0.9 s
    /// as the module describes. The caller holds no claim.
    pub(crate) fn permit<'s>(&'s self, of_file: &'s OfFile, nr_frames: usize) -> Permit<'s> {
        let mut permit = self.empty_permit(of_file, self.shards.own());
        let in_shard = || permit.try_extend_in_shard(nr_frames);
        if self.stock.take_unless(in_shard, of_file, nr_frames) {
            permit.nr_of_stock = nr_frames;
        }
        permit
    }

    /// As [`permit`](Self::permit), or `None` if `nr_frames` are not within the limits now.
    pub(crate) fn try_permit<'s>(
        &'s self,
        of_file: &'s OfFile,
        nr_frames: usize,
    ) -> Option<Permit<'s>> {
        let mut permit = self.empty_permit(of_file, self.shards.own());
        permit.try_extend(nr_frames).then_some(permit)
    }

    fn empty_permit<'s>(&'s self, of_file: &'s OfFile, shard: usize) -> Permit<'s> {
        ledger::acquired(Resource::Reservation, 1);
        Permit {
            in_flight: self,
            of_file,
            shard,
            nr_of_shard: 0,
            nr_of_stock: 0,
        }
    }
}

impl Stock {
    /// Whether a fill may exceed the limit after its wait (see the module).
    fn may_exceed(&self, state: &State, of_file: &OfFile, nr_frames: usize) -> bool {
        of_file.nr() == 0 && state.nr_frames + nr_frames <= self.most + self.most_excess
    }

    /// The file's quota does not apply while the file has reserved no shared credit.
    fn fits(&self, state: &State, of_file: &OfFile, nr_frames: usize) -> bool {
        let free = self.most.saturating_sub(state.nr_frames);
        let is_within_share = of_file.nr() == 0 || of_file.nr() + nr_frames <= free;
        nr_frames <= free && is_within_share
    }

    /// Reserves as [`InFlight::permit`] does, unless `elsewhere`, called before the wait and after
    /// each wake-up, returns `true`. Then returns `false`.
    fn take_unless(
        &self,
        mut elsewhere: impl FnMut() -> bool,
        of_file: &OfFile,
        nr_frames: usize,
    ) -> bool {
        if elsewhere() {
            return false;
        }
        let mut began = None;
        // Returns `true` if `LONGEST` has passed since the first call.
        let mut is_too_long = || began.get_or_insert_with(Instant::now).elapsed() >= LONGEST;
        let mut state = lock(&self.state);
        while state.nr_frames != 0
            && !self.fits(&state, of_file, nr_frames)
            && !(self.may_exceed(&state, of_file, nr_frames) && is_too_long())
        {
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

    /// Waits at most for [`MOMENT`], since the return of a shard's credit gives no notification.
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.returned.wait_timeout(state, MOMENT);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

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
    /// Adds `nr_frames`, if they are within the limits now. The caller may hold claims.
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
        // ORDERING: Relaxed; the limit applies to a sum, for which atomic changes suffice.
        let before = count.fetch_add(nr_frames, Ordering::Relaxed);
        let fits = before + nr_frames <= most;
        if fits {
            self.nr_of_shard += nr_frames;
        } else {
            // ORDERING: Relaxed; as above. A concurrent call that fails here uses shared credit.
            count.fetch_sub(nr_frames, Ordering::Relaxed);
        }
        fits
    }

    fn count(&self) -> &AtomicUsize {
        self.in_flight.shards.get(self.shard)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        ledger::released(Resource::Reservation, 1);
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

#[cfg(test)]
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

    /// Regression test: readers of seven files whose backends hang used up a small cache's credit.
    #[test]
    fn only_a_file_without_a_reservation_exceeds_the_limit() {
        let in_flight = InFlight::new(256);
        let files: [OfFile; 8] = Default::default();
        let [other, hung @ ..] = &files;
        let mut permits = Vec::new();
        for of_file in hung {
            while let Some(permit) = in_flight.try_permit(of_file, 4) {
                permits.push(permit);
            }
        }
        assert!(
            in_flight.try_permit(other, 4).is_none(),
            "no credit is left"
        );
        let stock = &in_flight.stock;
        let may_exceed = |file, nr| stock.may_exceed(&lock(&stock.state), file, nr);
        assert!(may_exceed(other, 4) && !may_exceed(other, 4 + 256 / 8));
        assert!(!may_exceed(&hung[0], 4));
        let reserved = lock(&stock.state).nr_frames;
        let beyond = in_flight.permit(other, 4);
        assert_eq!(lock(&stock.state).nr_frames, reserved + 4);
        drop(beyond);
        assert_eq!(lock(&stock.state).nr_frames, reserved);
        assert_eq!(lock(&stock.state).nr_waiters, 0);
    }
}
