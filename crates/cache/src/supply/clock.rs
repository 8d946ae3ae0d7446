//! CLOCK (Corbató, "A paging experiment with the Multics system", 1968): clock hands that pass over
//! the frames, and accessed bits that they clear.
//!
//! Passes over all frames, and over those outside one node, share one hand. Each node has its own.
//! A page that two hands pass is evicted earlier than either hand alone would evict it.

use std::ops::Range;

use pagewell_frame::{FrameNr, FramePool, Order};
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::shard::Padded;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    Respected,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    All,
    Node(usize),
    Others(usize),
}

#[derive(Debug)]
#[repr(align(128))] // Written by misses: shares no cache line with data that hits load.
pub(crate) struct Clock {
    hand: AtomicUsize,
    of_nodes: Box<[Padded<AtomicUsize>]>,
}

impl Clock {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        Self {
            hand: AtomicUsize::new(0),
            of_nodes: (0..nr_nodes).map(|_| Padded::default()).collect(),
        }
    }

    pub(crate) fn hand(&self, among: Among) -> &AtomicUsize {
        match among {
            Among::All | Among::Others(_) => &self.hand,
            Among::Node(node) => &self.of_nodes[node],
        }
    }

    /// Returns one pass of the hand over the *places* for blocks of `order` (aligned ranges of
    /// frames), as an iterator over their first frames.
    ///
    /// With `Marks::Respected`, the pass skips places that other passes of the same hand visit
    /// concurrently, since these clear the accessed bits there. With `Marks::Ignored`, it visits
    /// every place of `among` once.
    pub(crate) fn lap(
        &self,
        pool: &FramePool,
        order: Order,
        marks: Marks,
        among: Among,
    ) -> Lap<'_> {
        let len = order.frames() as usize;
        let nr_frames = pool.nr_frames() as u32;
        let (frames, passed_over) = match among {
            Among::All => (0..nr_frames, 0..0),
            Among::Node(node) => (pool.frames_of(node), 0..0),
            Among::Others(node) => (0..nr_frames, pool.frames_of(node)),
        };
        let first = (frames.start as usize).next_multiple_of(len);
        Lap {
            hand: self.hand(among),
            len,
            first,
            nr_places: (frames.end as usize).saturating_sub(first) / len,
            passed_over,
            marks,
            start: None,
            place: 0,
            taken: 0..0,
            hand_after: 0,
            nr_visited: 0,
            is_over: false,
        }
    }
}

/// Maximum number of steps per change of the hand's position, for which passes contend.
const MOST_STEPS: usize = 64;

/// Pass of a clock hand. The drop returns unused steps, unless the hand has moved since.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lap<'c> {
    hand: &'c AtomicUsize,
    len: usize,
    first: usize,
    nr_places: usize,
    passed_over: Range<u32>,
    marks: Marks,
    /// Step at which the pass began.
    start: Option<usize>,
    place: usize,
    /// Steps that are not used yet.
    taken: Range<usize>,
    /// Position of the hand after the steps in `taken` were taken.
    hand_after: usize,
    nr_visited: usize,
    /// Whether other passes have visited the remaining places.
    is_over: bool,
}

impl Lap<'_> {
    pub(crate) fn is_complete(&self) -> bool {
        let is_alone = match self.start {
            Some(start) => self.hand_after / self.len == start + self.nr_places,
            None => self.nr_places == 0,
        };
        self.nr_visited == self.nr_places && (is_alone || self.marks == Marks::Ignored)
    }

    /// Takes further steps of the hand, and uses the first. Returns `false` if the pass is over.
    #[cold]
    fn take_steps(&mut self) -> bool {
        let nr_left = self.nr_places - self.nr_visited;
        let nr = (self.nr_visited / 8).clamp(1, MOST_STEPS).min(nr_left);
        if nr == 0 {
            return false;
        }
        // ORDERING: Relaxed; the hand only distributes the work. Two requests never get the same
        // step, unless the first of them returns it.
        let before = self.hand.fetch_add(nr * self.len, Ordering::Relaxed);
        let step = before / self.len;
        self.hand_after = before + nr * self.len;
        // With `Marks::Ignored`, the pass visits one place after the other from its first step on.
        if self.marks == Marks::Respected || self.start.is_none() {
            self.place = step % self.nr_places;
        }
        let end = *self.start.get_or_insert(step) + self.nr_places;
        if self.marks == Marks::Respected && step >= end {
            self.taken = step..step + nr;
            self.is_over = true;
            return false;
        }
        self.taken = step + 1..step + nr;
        true
    }
}

impl Iterator for Lap<'_> {
    type Item = FrameNr;

    #[inline]
    fn next(&mut self) -> Option<FrameNr> {
        loop {
            if self.is_over || (self.taken.next().is_none() && !self.take_steps()) {
                return None;
            }
            let frame = (self.first + self.place * self.len) as u32;
            // A division would take longer than the load of the place's metadata.
            self.place += 1;
            if self.place == self.nr_places {
                self.place = 0;
            }
            self.nr_visited += 1;
            if !self.passed_over.contains(&frame) {
                return Some(FrameNr::new(frame));
            }
        }
    }
}

impl Drop for Lap<'_> {
    fn drop(&mut self) {
        let nr = self.taken.len();
        if nr != 0 {
            // ORDERING: Relaxed; as above. If the hand has moved since, it skips these places once.
            let _ = self.hand.compare_exchange(
                self.hand_after,
                self.hand_after - nr * self.len,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_frame::{Nodes, PoolConfig};

    fn pool(nr_frames: usize) -> FramePool {
        let mut config = PoolConfig::new(nr_frames);
        config.nodes = Nodes::Unbound(2);
        FramePool::new(&config).unwrap()
    }

    #[test]
    fn a_lap_alone_visits_every_place_once_and_moves_the_hand_as_far() {
        let pool = pool(1024);
        for marks in [Marks::Respected, Marks::Ignored] {
            for order in [Order::ZERO, Order::new(4).unwrap()] {
                let clock = Clock::new(2);
                let nr_places = 1024 / order.frames() as usize;
                for _ in 0..3 {
                    let mut lap = clock.lap(&pool, order, marks, Among::All);
                    let mut places: Vec<_> = lap.by_ref().map(FrameNr::get).collect();
                    assert!(lap.is_complete());
                    places.sort_unstable();
                    let all = (0..1024).step_by(order.frames() as usize);
                    assert_eq!(places, all.collect::<Vec<_>>());
                }
                assert_eq!(
                    clock.hand(Among::All).load(Ordering::Relaxed),
                    3 * nr_places * order.frames() as usize
                );
            }
        }
    }

    #[test]
    fn a_lap_that_is_dropped_leaves_the_hand_where_it_looked_last() {
        let pool = pool(1024);
        let clock = Clock::new(2);
        let mut expected = 0;
        for nr in [1, 7, 100, 333, 900] {
            let mut lap = clock.lap(&pool, Order::ZERO, Marks::Respected, Among::All);
            let last = lap.by_ref().take(nr).last().unwrap();
            drop(lap);
            expected += nr;
            assert_eq!(last.index(), (expected - 1) % 1024);
            assert_eq!(clock.hand(Among::All).load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn laps_that_respect_marks_share_one_round() {
        let pool = pool(1024);
        let clock = Clock::new(2);
        let [mut one, mut other] =
            [0, 1].map(|_| clock.lap(&pool, Order::ZERO, Marks::Respected, Among::All));
        let mut visited = Vec::new();
        loop {
            let both = [one.next(), other.next()];
            visited.extend(both.into_iter().flatten().map(FrameNr::get));
            if both == [None, None] {
                break;
            }
        }
        assert!(!one.is_complete() && !other.is_complete());
        visited.sort_unstable();
        visited.dedup();
        assert_eq!(visited.len(), 1024, "a frame was visited by neither");
    }
}
