//! What a crew has measured.

use super::lane::Tally;
use super::schedule::Schedule;

/// Operations per second, summed over the workers: one figure for each lane and
/// round.
#[derive(Debug)]
pub(in crate::bench) struct Speeds {
    /// `[lane][round]`
    pub(in crate::bench) of_lanes: Vec<Vec<f64>>,
}

impl Speeds {
    /// `tallies` are those of each worker, in the order of the schedule's steps.
    pub(super) fn new(schedule: &Schedule, tallies: &[Vec<Tally>]) -> Speeds {
        let mut of_lanes = vec![vec![0.0; schedule.rounds as usize]; schedule.lanes as usize];
        for worker in tallies {
            for (step, tally) in schedule.steps().zip(worker) {
                of_lanes[step.lane as usize][step.round as usize] += tally.per_second();
            }
        }
        Speeds { of_lanes }
    }
}
