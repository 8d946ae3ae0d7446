//! When each lane runs.

use std::time::Duration;

use super::clock;

/// Which lanes run for how long; the same for all workers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::bench) struct Schedule {
    pub(in crate::bench) lanes: u32,
    pub(in crate::bench) rounds: u32,
    /// The part of each slice that is not counted, in nanoseconds.
    pub(super) warm_ns: u64,
    /// The part that is counted, in nanoseconds.
    pub(super) slice_ns: u64,
}

/// One slice of time: which lane, in which round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::bench) struct Step {
    pub(in crate::bench) round: u32,
    pub(in crate::bench) lane: u32,
}

/// A warm-up refills what the engine before has pushed out of the processor's
/// caches: a few milliseconds do that.
const LONGEST_WARM_UP: Duration = Duration::from_millis(5);

impl Schedule {
    /// Each lane is measured for `seconds` in all.
    pub(in crate::bench) fn new(lanes: usize, rounds: u32, seconds: Duration) -> Schedule {
        let slice = seconds / rounds;
        Schedule {
            lanes: u32::try_from(lanes).unwrap_or(u32::MAX),
            rounds,
            warm_ns: clock::to_ns((slice / 4).min(LONGEST_WARM_UP)),
            slice_ns: clock::to_ns(slice),
        }
    }

    /// All slices in order. Each round begins with another lane than the one
    /// before, and every other round runs backwards, so that no engine always
    /// comes after the same one.
    pub(in crate::bench) fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let Schedule { lanes, rounds, .. } = *self;
        (0..rounds).flat_map(move |round| {
            (0..lanes).map(move |place| {
                let place = if round % 2 == 0 {
                    place
                } else {
                    lanes - 1 - place
                };
                Step {
                    round,
                    lane: (place + round) % lanes,
                }
            })
        })
    }

    pub(super) fn nr_steps(&self) -> usize {
        self.lanes as usize * self.rounds as usize
    }

    /// How long all of it takes.
    pub(in crate::bench) fn duration(&self) -> Duration {
        self.step_duration() * self.lanes * self.rounds
    }

    pub(super) fn step_duration(&self) -> Duration {
        Duration::from_nanos(self.warm_ns + self.slice_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_lane_once() {
        let schedule = Schedule::new(5, 7, Duration::from_secs(1));
        let steps: Vec<Step> = schedule.steps().collect();
        assert_eq!(steps.len(), schedule.nr_steps());
        for (round, steps) in (0..).zip(steps.chunks(5)) {
            let mut lanes: Vec<u32> = steps.iter().map(|step| step.lane).collect();
            lanes.sort_unstable();
            assert_eq!(lanes, [0, 1, 2, 3, 4]);
            assert!(steps.iter().all(|step| step.round == round));
        }
    }

    #[test]
    fn the_order_changes_from_round_to_round() {
        let schedule = Schedule::new(3, 4, Duration::from_secs(1));
        let lanes: Vec<u32> = schedule.steps().map(|step| step.lane).collect();
        assert_eq!(lanes, [0, 1, 2, 0, 2, 1, 2, 0, 1, 2, 1, 0]);
    }

    #[test]
    fn the_counted_time_is_what_was_asked_for() {
        let schedule = Schedule::new(2, 10, Duration::from_secs(1));
        assert_eq!(schedule.slice_ns, 100_000_000);
        assert_eq!(schedule.duration(), Duration::from_millis(2 * 10 * 105));
    }
}
