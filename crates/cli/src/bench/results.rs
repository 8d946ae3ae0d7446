//! What was measured in a cell, and what is compared in it.

use super::crew::Speeds;
use super::plan::{Bench, Case, Cell};
use super::stats::Spread;
use super::{alloc, contig, engine, fork, migrate, refcount, space, write};

/// A cell with the figures of all engines.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) cell: Cell,
    /// In the case's unit, `[engine][round]`.
    figures: Vec<Vec<f64>>,
}

/// The engines of a case, in the order of their lanes. The last ones may not have been there to be measured.
pub(super) fn engines(case: Case) -> &'static [&'static str] {
    match case.bench() {
        Bench::Refcount => &refcount::ENGINES,
        Bench::Read => &engine::ENGINES,
        Bench::Write if case == Case::Writeback => &write::WRITEBACK_ENGINES,
        Bench::Write => &write::ENGINES,
        Bench::Contig if case == Case::Fragmentation => &contig::STRATEGIES,
        Bench::Contig => &contig::ENGINES,
        Bench::Alloc => &alloc::ENGINES,
        Bench::Space => &space::ENGINES,
        Bench::Fork => &fork::ENGINES,
        Bench::Migrate if case == Case::SecondWalk => &migrate::WALKERS,
        Bench::Migrate => &migrate::ENGINES,
    }
}

/// What is compared: (A, B) says how many times faster A is than B.
pub(super) fn ratios(case: Case) -> &'static [(&'static str, &'static str)] {
    match case.bench() {
        Bench::Refcount => &refcount::RATIOS,
        Bench::Read => &engine::RATIOS,
        Bench::Write if case == Case::Writeback => &write::WRITEBACK_RATIOS,
        Bench::Write => &write::RATIOS,
        // Shares are no speeds.
        Bench::Contig if case == Case::Fragmentation => &[],
        Bench::Contig => &contig::RATIOS,
        Bench::Alloc => &alloc::RATIOS,
        Bench::Space => &space::RATIOS,
        Bench::Fork => &fork::RATIOS,
        Bench::Migrate if case == Case::SecondWalk => &[],
        Bench::Migrate => &migrate::RATIOS,
    }
}

impl Measured {
    pub(super) fn new(cell: Cell, speeds: Speeds) -> Measured {
        Measured {
            cell,
            figures: speeds.of_lanes,
        }
    }

    /// What an engine did: operations per second, summed over the workers, or what the case's unit says.
    pub(super) fn figure(&self, engine: &str) -> Option<Spread> {
        Spread::of(self.rounds(engine)?.iter().copied())
    }

    /// How many times faster `a` is than `b`.
    pub(super) fn ratio(&self, a: &str, b: &str) -> Option<Spread> {
        Spread::of_ratio(self.rounds(a)?, self.rounds(b)?)
    }

    pub(super) fn nr_rounds(&self) -> usize {
        self.figures.first().map_or(0, Vec::len)
    }

    fn rounds(&self, engine: &str) -> Option<&[f64]> {
        let lane = engines(self.cell.case)
            .iter()
            .position(|name| *name == engine)?;
        self.figures.get(lane).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_found_by_name_and_compared_by_round() {
        let cell = Cell {
            case: Case::OneCount,
            block: 0,
            file_bytes: 0,
            threads: 2,
            forks: 0,
        };
        let speeds = Speeds {
            of_lanes: vec![vec![30.0, 20.0], vec![10.0, 10.0], vec![30.0, 40.0]],
        };
        let measured = Measured::new(cell, speeds);
        assert_eq!(measured.nr_rounds(), 2);
        assert_eq!(measured.figure("cas-loop").unwrap().median, 10.0);
        let ratio = measured.ratio("lock-bit", "bare").unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.5, 0.75, 1.0));
        assert!(measured.figure("pread").is_none());
    }

    #[test]
    fn every_ratio_is_between_engines_that_exist() {
        for case in Bench::ALL.iter().flat_map(|bench| bench.cases()) {
            for (a, b) in ratios(*case) {
                assert!(engines(*case).contains(a) && engines(*case).contains(b));
            }
        }
    }
}
