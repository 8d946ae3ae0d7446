//! A cell as if it had been measured, for tests.

use super::measured::Measured;
use crate::bench::cases::engines;
use crate::bench::crew::{Bound, Speeds};
use crate::bench::plan::{Bench, Case, Cell};

/// Each engine twice as fast as the next, in two rounds.
pub(in crate::bench) fn measured(case: Case, block: u64, threads: u32) -> Measured {
    let cell = Cell {
        case,
        block,
        file_bytes: if matches!(case.bench(), Bench::Read | Bench::Write) {
            256 << 20
        } else {
            0
        },
        threads,
        forks: if case.bench() == Bench::Migrate {
            10_000
        } else {
            0
        },
    };
    let speed = |lane: u32| 1e6 * f64::from(threads) / f64::from(1 << lane);
    let of_lanes = (0..engines(case).len() as u32)
        .map(|lane| vec![speed(lane), speed(lane)])
        .collect();
    let cpu_ns = vec![vec![1e6; 2]; engines(case).len()];
    let memory = (case == Case::Gets4x).then(|| match threads {
        1 => Bound::Bytes(block),
        _ => Bound::CouldNot(format!(
            "the control group {} is full",
            "of ours ".repeat(20)
        )),
    });
    Measured::new(
        cell,
        Speeds {
            of_lanes,
            cpu_ns,
            memory,
        },
    )
}
