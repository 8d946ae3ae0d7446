//! In-flight transfers from the backend, counted for each node.
//!
//! A frame that is being filled can be evicted once its page is published. The transfer ends
//! afterwards, or once the frames of a failed fill are freed. So a request that finds nothing to
//! evict sleeps until a transfer to frames that it could use ends ([`crate::supply::reclaim`]). It
//! also wakes at intervals, since unpinning a page or freeing a frame notifies no waiter.
//!
//! Locks. Waiting threads acquire the lock, as do threads that end transfers while others wait. Its
//! holder acquires no other lock.

use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::time::Duration;

use pagewell_frame::{FrameNr, FramePool};
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::scaled;
use pagewell_sync::shard::Shards;
use pagewell_sync::time::Instant;
use pagewell_sync::{Condvar, Mutex, lock};

/// Set of the nodes of a pool, at most 64, as a bit map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    pub(crate) const ALL: Self = Self(u64::MAX);

    pub(crate) const fn only(node: usize) -> Self {
        Self(1 << node)
    }

    pub(crate) fn of_frames(pool: &FramePool, frames: impl Iterator<Item = FrameNr>) -> Self {
        if pool.nr_nodes() == 1 {
            return Self::only(0);
        }
        let nodes = frames.filter_map(|frame| pool.node_of(frame));
        Self(nodes.fold(0, |set, node| set | 1 << node))
    }

    const fn has(self, node: usize) -> bool {
        self.0 & 1 << node != 0
    }

    /// Returns the sum of the numbers of these nodes.
    fn sum(self, numbers: &[u64]) -> u64 {
        let of_these = numbers.iter().enumerate();
        let of_these = of_these.filter(|(node, _)| self.has(*node));
        of_these.map(|(_, nr)| nr).sum()
    }
}

/// Number of transfers that fill frames of each node.
#[derive(Debug)]
#[repr(align(128))] // Read by misses, written by requests that wait.
pub(crate) struct Transfers {
    of_nodes: Box<[Shards<AtomicUsize>]>,
    /// Number of threads that wait for the end of a transfer, or will do so after their next scan.
    nr_waiters: AtomicUsize,
    /// Number of transfers to frames of each node that have ended while a thread was waiting.
    nr_ended: Mutex<Box<[u64]>>,
    ended: Condvar,
}

/// Shortest and longest sleep of a thread that waits for a transfer.
const NAPS: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(64);

/// Time without the end of a transfer after which a thread does not sleep again, so that a backend
/// that hangs does not stop requests for other files. The last sleep may exceed it.
pub(super) const LONGEST: Duration = Duration::from_millis(900);

#[derive(Debug)]
pub(crate) struct Waiter<'t> {
    transfers: &'t Transfers,
    nodes: NodeSet,
    nr_seen: u64,
    nap: Duration,
    /// Creation of the waiter, or last time that it found that a transfer had ended.
    since: Instant,
}

/// Transfer in flight, which ends even if the backend panics.
#[derive(Debug)]
#[must_use]
pub(crate) struct Transfer<'t> {
    transfers: &'t Transfers,
    nodes: NodeSet,
    shard: usize,
}

impl Transfers {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        Self {
            of_nodes: (0..nr_nodes).map(|_| Shards::new()).collect(),
            nr_waiters: AtomicUsize::new(0),
            nr_ended: Mutex::new((0..nr_nodes).map(|_| 0).collect()),
            ended: Condvar::new(),
        }
    }

    /// Registers this thread as waiting for transfers to frames of `nodes`. The caller then scans
    /// the frames once more, or detects a transfer that ended before this call only after a sleep.
    pub(crate) fn waiter(&self, nodes: NodeSet) -> Waiter<'_> {
        // ORDERING: Relaxed; a waiter that is not seen yet sleeps one interval longer.
        self.nr_waiters.fetch_add(1, Ordering::Relaxed);
        Waiter {
            transfers: self,
            nodes,
            nr_seen: nodes.sum(&lock(&self.nr_ended)),
            nap: *NAPS.start(),
            since: Instant::now(),
        }
    }

    /// Counts a transfer to frames of `nodes` as in flight until the guard is dropped.
    pub(crate) fn begin(&self, nodes: NodeSet) -> Transfer<'_> {
        let shard = self.of_nodes.first().map_or(0, Shards::own);
        for counts in self.counts(nodes) {
            // ORDERING: Relaxed, here and below; the counts only show whether waiting is useful.
            counts.get(shard).fetch_add(1, Ordering::Relaxed);
        }
        Transfer {
            transfers: self,
            nodes,
            shard,
        }
    }

    pub(crate) fn are_any(&self, nodes: NodeSet) -> bool {
        // ORDERING: Relaxed; a hint. The frames of a transfer are published or freed before it
        // ends, so the next pass finds them.
        self.counts(nodes)
            .flat_map(Shards::iter)
            .any(|count| count.load(Ordering::Relaxed) != 0)
    }

    fn counts(&self, nodes: NodeSet) -> impl Iterator<Item = &Shards<AtomicUsize>> {
        let counts = self.of_nodes.iter().enumerate();
        counts
            .filter(move |(node, _)| nodes.has(*node))
            .map(|(_, counts)| counts)
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        for counts in self.transfers.counts(self.nodes) {
            counts.get(self.shard).fetch_sub(1, Ordering::Relaxed);
        }
        // A model has no timeouts, so no waiter may be missed there.
        // ORDERING: Relaxed; see `waiter`.
        if scaled(false, true) || self.transfers.nr_waiters.load(Ordering::Relaxed) != 0 {
            let mut nr_ended = lock(&self.transfers.nr_ended);
            for (node, nr) in nr_ended.iter_mut().enumerate() {
                *nr += u64::from(self.nodes.has(node));
            }
            drop(nr_ended);
            self.transfers.ended.notify_all();
        }
    }
}

impl Waiter<'_> {
    /// Sleeps until a transfer to frames of the nodes has ended since the last call, or until a
    /// timeout, which doubles each time within [`NAPS`]. Returns `false` at once if no transfer has
    /// ended for [`LONGEST`].
    #[must_use]
    pub(crate) fn wait(&mut self) -> bool {
        if self.since.elapsed() >= LONGEST {
            return false;
        }
        let nr_ended = lock(&self.transfers.nr_ended);
        let (nodes, seen) = (self.nodes, self.nr_seen);
        let waited = self
            .transfers
            .ended
            .wait_timeout_while(nr_ended, self.nap, |nr| nodes.sum(nr) == seen);
        let (nr_ended, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        self.nr_seen = nodes.sum(&nr_ended);
        if timed_out.timed_out() {
            self.nap = (self.nap * 2).min(*NAPS.end());
        } else {
            self.since = Instant::now();
        }
        true
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; as above.
        self.transfers.nr_waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_an_hour() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn a_transfer_is_one_of_the_nodes_whose_frames_it_fills() {
        let transfers = Transfers::new(3);
        let first = transfers.begin(NodeSet(0b101));
        let second = transfers.begin(NodeSet::only(2));
        let are_any = |node| transfers.are_any(NodeSet::only(node));
        assert_eq!([0, 1, 2].map(are_any), [true, false, true]);
        drop(first);
        assert_eq!([0, 1, 2].map(are_any), [false, false, true]);
        assert!(transfers.are_any(NodeSet::ALL));
        drop(second);
        assert!(!transfers.are_any(NodeSet::ALL));
    }

    #[test]
    fn a_waiter_is_woken_by_an_end_and_sees_one_that_came_before_it_slept() {
        let transfers = Transfers::new(1);
        let first = transfers.begin(NodeSet::ALL);
        let second = transfers.begin(NodeSet::ALL);
        let mut waiter = transfers.waiter(NodeSet::ALL);
        (waiter.nap, waiter.since) = (Duration::from_secs(600), in_an_hour());
        drop(first);
        assert!(waiter.wait());
        waiter.since = in_an_hour();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || waiter.wait());
            drop(second);
            assert!(waits.join().unwrap());
        });
        assert_eq!(transfers.nr_waiters.load(Ordering::Relaxed), 0);
        drop(transfers.begin(NodeSet::ALL));
        assert_eq!(**lock(&transfers.nr_ended), [2], "nobody was to be told");
    }

    /// Regression test: transfers to another node extended a request's sleep and time limit.
    #[test]
    fn a_waiter_for_one_node_does_not_see_the_end_of_a_transfer_to_another() {
        let transfers = Transfers::new(2);
        let hangs = transfers.begin(NodeSet::only(0));
        let mut waiter = transfers.waiter(NodeSet::only(0));
        let since = in_an_hour();
        waiter.since = since;
        drop(transfers.begin(NodeSet::only(1)));
        assert!(waiter.wait(), "it is not too late");
        assert!(waiter.since == since && waiter.nap > *NAPS.start());
        drop(transfers.begin(NodeSet(0b11)));
        assert!(waiter.wait());
        assert!(waiter.since < since, "the time limit begins anew");
        drop(hangs);
    }
}
