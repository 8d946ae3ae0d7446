//! What was measured in a cell, and what is compared in it.

use super::stats::Spread;
use crate::bench::cases::engines;
use crate::bench::crew::Speeds;
use crate::bench::plan::Cell;

/// A cell with the figures of all engines.
#[derive(Debug)]
pub(in crate::bench) struct Measured {
    pub(in crate::bench) cell: Cell,
    /// In the case's unit, `[engine][round]`.
    figures: Vec<Vec<f64>>,
}

impl Measured {
    pub(in crate::bench) fn new(cell: Cell, speeds: Speeds) -> Measured {
        Measured {
            cell,
            figures: speeds.of_lanes,
        }
    }

    /// What an engine did: operations per second, summed over the workers, or what the case's unit says.
    pub(in crate::bench) fn figure(&self, engine: &str) -> Option<Spread> {
        Spread::of(self.rounds(engine)?.iter().copied())
    }

    /// How many times faster `a` is than `b`.
    pub(in crate::bench) fn ratio(&self, a: &str, b: &str) -> Option<Spread> {
        Spread::of_ratio(self.rounds(a)?, self.rounds(b)?)
    }

    pub(in crate::bench) fn nr_rounds(&self) -> usize {
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
}
