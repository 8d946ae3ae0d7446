//! `bench fork`: a snapshot of a space, beside `fork(2)` of a process with as much memory.
//!
//! The engines do not take turns: while a process is forked, what the others have allocated must not be in it. Each has
//! its rounds one after the other, and the memory of one engine is given back before the next one begins.

mod process;

use std::time::{Duration, Instant};

use pagewell::baseline::ForkMode;
use pagewell_frame::FRAME_BYTES;

use super::spaces::{filled, spaces};
use crate::bench::crew::{Schedule, Speeds, Watch};
use crate::bench::data::{Memory, Rng};
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

const SHARED: &str = "shared-tables";
const COPIED: &str = "copied-tables";
const PROCESS: &str = "fork(2)";
const PROCESS_HUGE: &str = "fork(2)-huge";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 4] = [SHARED, COPIED, PROCESS, PROCESS_HUGE];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 4] = [
    (SHARED, PROCESS),
    (SHARED, PROCESS_HUGE),
    (SHARED, COPIED),
    (COPIED, PROCESS),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 4] = [
    (
        SHARED,
        "Space::fork: page tables are shared until one of the spaces writes",
    ),
    (COPIED, "the baseline: page tables are copied at once"),
    (
        PROCESS,
        "fork(2) of this process with that memory, in pages of 4 KiB",
    ),
    (
        PROCESS_HUGE,
        "the same in huge pages, as far as the system gives them",
    ),
];

/// How often an engine does it in a round at the least.
const LEAST: u32 = 3;

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    _: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    let mut rounds = Rounds {
        nr: schedule.rounds,
        each: schedule.duration() / (schedule.rounds * ENGINES.len() as u32).max(1),
        done: Duration::ZERO,
        watch,
    };
    let mut of_lanes = Vec::new();
    for mode in [ForkMode::Share, ForkMode::Copy] {
        of_lanes.push(rounds.run(spaces_forked(cell, mode)?)?);
    }
    for huge_pages in [false, true] {
        of_lanes.push(rounds.run(process_forked(cell, huge_pages)?)?);
    }
    Ok(Speeds::of(of_lanes))
}

/// The rounds of one engine after the other.
struct Rounds<'a> {
    nr: u32,
    each: Duration,
    done: Duration,
    watch: Watch<'a>,
}

impl Rounds<'_> {
    /// How often per second `once` is done, which says how long it took, round by round.
    fn run(
        &mut self,
        mut once: impl FnMut() -> Result<Duration, Failure>,
    ) -> Result<Vec<f64>, Failure> {
        once()?;
        let mut speeds = Vec::new();
        for _ in 0..self.nr {
            let begin = Instant::now();
            let (mut times, mut took) = (0, Duration::ZERO);
            while times < LEAST || begin.elapsed() < self.each {
                took += once()?;
                times += 1;
            }
            speeds.push(f64::from(times) / took.as_secs_f64().max(1e-9));
            self.done += self.each;
            (self.watch)(self.done)?;
        }
        Ok(speeds)
    }
}

fn spaces_forked(
    cell: &Cell,
    mode: ForkMode,
) -> Result<impl FnMut() -> Result<Duration, Failure>, Failure> {
    let case = cell.case;
    let bytes = cell.block;
    let spaces = spaces(bytes, false)?;
    let (space, start) = filled(&spaces, bytes, FRAME_BYTES)?;
    let mut rng = Rng::new(1);
    let failed = |error| Failure::because("cannot fork a space", error);
    Ok(move || {
        let begin = Instant::now();
        let fork = space.fork_with(mode).map_err(failed)?;
        let mut took = begin.elapsed();
        if case == Case::FirstWrite {
            let addr = start + rng.below(bytes / FRAME_BYTES as u64) * FRAME_BYTES as u64;
            let begin = Instant::now();
            space
                .write(addr, &rng.next().to_ne_bytes())
                .map_err(failed)?;
            took = begin.elapsed();
        }
        drop(fork);
        Ok(took)
    })
}

fn process_forked(
    cell: &Cell,
    huge_pages: bool,
) -> Result<impl FnMut() -> Result<Duration, Failure>, Failure> {
    let case = cell.case;
    let mut memory = Memory::new(cell.block as usize, huge_pages)?;
    let mut rng = Rng::new(1);
    Ok(move || {
        let begin = Instant::now();
        let child = process::fork()?;
        let mut took = begin.elapsed();
        if case == Case::FirstWrite {
            let bytes = memory.bytes_mut();
            let at = rng.below((bytes.len() / FRAME_BYTES) as u64) as usize * FRAME_BYTES;
            let value = rng.next().to_ne_bytes();
            let begin = Instant::now();
            if let Some(word) = bytes.get_mut(at..at + value.len()) {
                std::hint::black_box(word).copy_from_slice(&value);
            }
            took = begin.elapsed();
        }
        child.end()?;
        Ok(took)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_forks_what_it_has() {
        for case in [Case::Fork, Case::FirstWrite] {
            let cell = Cell {
                case,
                block: 4 << 20,
                file_bytes: 0,
                threads: 1,
                forks: 0,
            };
            for mode in [ForkMode::Share, ForkMode::Copy] {
                assert!(spaces_forked(&cell, mode).unwrap()().is_ok());
            }
            assert!(process_forked(&cell, false).unwrap()().is_ok());
        }
    }
}
