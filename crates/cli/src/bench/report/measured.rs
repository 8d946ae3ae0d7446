//! What was measured in a cell, and what is compared in it.

use super::stats::Spread;
use crate::bench::cases::engines;
use crate::bench::crew::{Bound, Speeds};
use crate::bench::plan::Cell;

/// A cell with the figures of all engines.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Measured {
    pub(in crate::bench) cell: Cell,
    /// In the case's unit, `[engine][round]`.
    figures: Vec<Vec<f64>>,
    /// Nanoseconds of processor time an operation, `[engine][round]`; empty where they were not measured.
    cpu_ns: Vec<Vec<f64>>,
    /// How much memory each engine had, where that was to be bounded.
    pub(in crate::bench) memory: Option<Bound>,
}

impl Measured {
    pub(in crate::bench) fn new(cell: Cell, speeds: Speeds) -> Measured {
        Measured {
            cell,
            figures: speeds.of_lanes,
            cpu_ns: speeds.cpu_ns,
            memory: speeds.memory,
        }
    }

    /// What an engine did: operations per second, summed over the workers, or what the case's unit says.
    pub(in crate::bench) fn figure(&self, engine: &str) -> Option<Spread> {
        Spread::of(rounds(&self.figures, self.lane(engine)?)?.iter().copied())
    }

    /// The processor time of the whole process an operation, in nanoseconds, where the case asks for it.
    pub(in crate::bench) fn cpu_ns(&self, engine: &str) -> Option<Spread> {
        Spread::of(self.cpu_rounds(engine)?.iter().copied())
    }

    /// How many times less processor time `a` takes than `b`.
    pub(in crate::bench) fn cpu_ratio(&self, a: &str, b: &str) -> Option<Spread> {
        Spread::of_ratio(self.cpu_rounds(b)?, self.cpu_rounds(a)?)
    }

    /// How many times faster `a` is than `b`.
    pub(in crate::bench) fn ratio(&self, a: &str, b: &str) -> Option<Spread> {
        let of = |engine| rounds(&self.figures, self.lane(engine)?);
        Spread::of_ratio(of(a)?, of(b)?)
    }

    pub(in crate::bench) fn nr_rounds(&self) -> usize {
        self.figures.first().map_or(0, Vec::len)
    }

    /// None too where a clock was too coarse for one of the rounds: fio's has milliseconds.
    fn cpu_rounds(&self, engine: &str) -> Option<&[f64]> {
        if !self.cell.case.has_cpu_time() {
            return None;
        }
        rounds(&self.cpu_ns, self.lane(engine)?).filter(|rounds| rounds.iter().all(|ns| *ns > 0.0))
    }

    fn lane(&self, engine: &str) -> Option<usize> {
        let engines = engines(self.cell.case);
        engines.iter().position(|name| *name == engine)
    }
}

fn rounds(of_lanes: &[Vec<f64>], lane: usize) -> Option<&[f64]> {
    of_lanes.get(lane).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Case;

    #[test]
    fn engines_are_found_by_name_and_compared_by_round() {
        let cell = Cell {
            case: Case::OneCount,
            block: 0,
            file_bytes: 0,
            threads: 2,
            forks: 0,
        };
        let speeds = Speeds::of(vec![vec![30.0, 20.0], vec![10.0, 10.0], vec![30.0, 40.0]]);
        let measured = Measured::new(cell, speeds);
        assert_eq!(measured.nr_rounds(), 2);
        assert_eq!(measured.figure("cas-loop").unwrap().median, 10.0);
        let ratio = measured.ratio("lock-bit", "bare").unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.5, 0.75, 1.0));
        assert!(measured.figure("pread").is_none());
    }
    #[test]
    fn processor_time_that_a_clock_could_not_tell_is_no_figure() {
        let cell = Cell {
            case: Case::Sequential,
            block: 65_536,
            file_bytes: 4 << 20,
            threads: 1,
            forks: 0,
        };
        let mut speeds = Speeds::of(vec![vec![1.0, 1.0]; engines(cell.case).len()]);
        speeds.cpu_ns = vec![vec![2e6, 1e6]; engines(cell.case).len()];
        speeds.cpu_ns[1][0] = 0.0;
        let measured = Measured::new(cell, speeds);
        let names = engines(Case::Sequential);
        assert_eq!(measured.cpu_ns(names[0]).unwrap().median, 1.5e6);
        assert!(measured.cpu_ns(names[1]).is_none());
        assert!(measured.cpu_ratio(names[0], names[1]).is_none());
    }
}
