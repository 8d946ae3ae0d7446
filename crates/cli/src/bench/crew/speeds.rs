//! What a crew has measured.

use super::lane::Tally;
use super::schedule::Schedule;

/// How much memory each engine had, where that was to be bounded for all alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::bench) enum Bound {
    /// So many bytes, what the operating system keeps of its files included.
    Bytes(u64),
    /// As much as there was, for this reason.
    CouldNot(String),
}

/// Operations per second, summed over the workers: one figure for each lane and
/// round.
#[derive(Debug, Default)]
pub(in crate::bench) struct Speeds {
    /// `[lane][round]`
    pub(in crate::bench) of_lanes: Vec<Vec<f64>>,
    /// Nanoseconds of the process's processor time an operation, `[lane][round]`; 0 where they were not measured.
    pub(in crate::bench) cpu_ns: Vec<Vec<f64>>,
    /// None where nobody asked.
    pub(in crate::bench) memory: Option<Bound>,
}

impl Speeds {
    /// Figures without processor time.
    pub(in crate::bench) fn of(of_lanes: Vec<Vec<f64>>) -> Speeds {
        Speeds {
            of_lanes,
            ..Speeds::default()
        }
    }

    /// `tallies` are those of each worker, in the order of the schedule's steps.
    pub(super) fn new(schedule: &Schedule, tallies: &[Vec<Tally>]) -> Speeds {
        let mut of_lanes = vec![vec![0.0; schedule.rounds as usize]; schedule.lanes as usize];
        for worker in tallies {
            for (step, tally) in schedule.steps().zip(worker) {
                of_lanes[step.lane as usize][step.round as usize] += tally.per_second();
            }
        }
        // The first worker's, which is that of all: slices begin together, and are as long.
        let mut cpu_ns = vec![vec![0.0; schedule.rounds as usize]; schedule.lanes as usize];
        let first = tallies.first().map_or(&[][..], Vec::as_slice);
        for (step, tally) in schedule.steps().zip(first) {
            let (lane, round) = (step.lane as usize, step.round as usize);
            cpu_ns[lane][round] = tally.nr_busy() * 1e9 / of_lanes[lane][round];
        }
        Speeds {
            cpu_ns,
            ..Speeds::of(of_lanes)
        }
    }
}
