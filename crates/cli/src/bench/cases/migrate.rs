//! `bench migrate`: a range moved to another node of the pool, of a space that was forked.
//!
//! The published workload: a parent writes its range on node 0, forks, each fork writes all of it (so every page is copied), and
//! the parent's range is migrated to node 1 and timed. The nodes are halves of one pool's memory, so a migration is a real copy
//! within the same memory. Between two measurements the range is moved back, which is not timed. So the frames that are copied
//! from were written a moment ago, and those that are copied to were read: they are as warm as the processor's caches are
//! large. What `memcpy` is given is the same: two ranges of that size, in pages of 4 KiB, copied there, and back untimed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pagewell::baseline::{Engine, ForkMode};
use pagewell::frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell::space::{Policy, Space, Spaces};
use pagewell_frame::FRAME_BYTES;

use crate::bench::crew::{Schedule, Speeds, Watch};
use crate::bench::data::Memory;
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

const FULL_WALK: &str = "full-walk";
const EARLY_STOP: &str = "early-stop";
const BATCHED: &str = "batched";
const MEMCPY: &str = "memcpy";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 4] = [BATCHED, EARLY_STOP, FULL_WALK, MEMCPY];

/// Those that walk.
pub(in crate::bench) const WALKERS: [&str; 3] = [BATCHED, EARLY_STOP, FULL_WALK];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 5] = [
    (BATCHED, FULL_WALK),
    (BATCHED, EARLY_STOP),
    (BATCHED, MEMCPY),
    (EARLY_STOP, FULL_WALK),
    (EARLY_STOP, MEMCPY),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 4] = [
    (
        BATCHED,
        "many pages by one walk, and those that are mapped once by none",
    ),
    (
        EARLY_STOP,
        "page by page; the second walk ends with the last migration entry",
    ),
    (
        FULL_WALK,
        "the baseline: the second walk visits every area that may map the page",
    ),
    (
        MEMCPY,
        "the limit: the range copied from plain memory to plain memory (and back, untimed)",
    ),
];

/// What the engines do, in the order of [`WALKERS`].
const HOW: [Engine; 3] = [Engine::Batched, Engine::EarlyStop, Engine::FullWalk];

/// Measures a cell: pages per second, and the second walk's share.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    watch: Watch<'_>,
) -> Result<(Speeds, Speeds), Failure> {
    let mut stage = Stage::new(cell)?;
    let mut speeds = vec![Vec::new(); ENGINES.len()];
    let mut shares = vec![Vec::new(); WALKERS.len()];
    let each = schedule.duration() / (schedule.rounds * ENGINES.len() as u32).max(1);
    // Memory that was never touched is not what is measured.
    for engine in HOW {
        stage.there_and_back(engine)?;
    }
    stage.copy();
    let mut done = Duration::ZERO;
    for _ in 0..schedule.rounds {
        for (lane, engine) in HOW.into_iter().enumerate() {
            let (mut pages, mut took, mut second) = (0, Duration::ZERO, Duration::ZERO);
            let begin = Instant::now();
            while pages == 0 || begin.elapsed() < each {
                let moved = stage.there_and_back(engine)?;
                pages += stage.pages;
                took += moved.took;
                second += moved.second_walk;
            }
            speeds[lane].push(pages as f64 / took.as_secs_f64().max(1e-9));
            shares[lane].push(second.as_secs_f64() / took.as_secs_f64().max(1e-9));
        }
        let (mut pages, mut took) = (0, Duration::ZERO);
        while pages == 0 || took < each {
            took += stage.copy();
            pages += stage.pages;
        }
        speeds[ENGINES.len() - 1].push(pages as f64 / took.as_secs_f64().max(1e-9));
        done += each * ENGINES.len() as u32;
        watch(done)?;
    }
    stage.check()?;
    Ok((Speeds::of(speeds), Speeds::of(shares)))
}

/// How long a migration took, and its second walks.
struct Moved {
    took: Duration,
    second_walk: Duration,
}

/// The parent and its forks.
struct Stage {
    spaces: Spaces,
    parent: Space,
    forks: Vec<Space>,
    range: std::ops::Range<u64>,
    pages: usize,
    from: Memory,
    to: Memory,
}

impl Stage {
    fn new(cell: &Cell) -> Result<Stage, Failure> {
        let pages = cell.block as usize / FRAME_BYTES;
        let forks = cell.forks as usize;
        // How many of the forks have not written the range.
        let sharers = match cell.case {
            Case::Mapped4 => 3,
            Case::Mapped32 => 31,
            _ => 0,
        };
        let tables = cell.block.div_ceil(2 << 20) as usize + 1;
        // Twice as many as all need: what forks write is bound to the node of the range too, and node 1 is to have room.
        let nr_frames = 2 * ((forks + 2) * (pages + tables) + (16 << 10));
        let mut config = PoolConfig::new(nr_frames);
        config.nodes = Nodes::Unbound(2);
        config.huge_pages = HugePages::Never;
        let pool = FramePool::new(&config)
            .map_err(|error| Failure::because("cannot make a frame pool", error))?;
        let spaces = Spaces::new(pool);
        let failed = |error| Failure::because("cannot set up the spaces", error);
        let parent = spaces.space().map_err(failed)?;
        let range = parent.map(cell.block, Policy::Bind(0)).map_err(failed)?;
        fill(&parent, &range, 1).map_err(failed)?;
        let mut all = Vec::new();
        for nr in 0..forks {
            if nr < sharers {
                all.push(parent.fork_with(ForkMode::Copy).map_err(failed)?);
            } else {
                let fork = parent.fork().map_err(failed)?;
                fill(&fork, &range, 2).map_err(failed)?;
                all.push(fork);
            }
        }
        // The parent's own table again, after the last fork.
        fill(&parent, &(range.start..range.start + FRAME_BYTES as u64), 1).map_err(failed)?;
        Ok(Stage {
            spaces,
            parent,
            forks: all,
            range,
            pages,
            from: Memory::new(cell.block as usize, false)?,
            to: Memory::new(cell.block as usize, false)?,
        })
    }

    /// Migrates the range to node 1, and back.
    fn there_and_back(&mut self, engine: Engine) -> Result<Moved, Failure> {
        let mut moved = Moved {
            took: Duration::ZERO,
            second_walk: Duration::ZERO,
        };
        for (node, engine) in [(1, engine), (0, Engine::Batched)] {
            let begin = Instant::now();
            let report = self
                .parent
                .migrate_with(self.range.clone(), node, engine)
                .map_err(|error| Failure::because("cannot migrate", error))?;
            let took = begin.elapsed();
            if report.nr_moved != self.pages {
                return Err(Failure::Run(format!(
                    "{} of {} pages were moved to node {node}",
                    report.nr_moved, self.pages
                )));
            }
            if node == 1 {
                moved.took = took;
                moved.second_walk = report.second_walk;
            }
        }
        Ok(moved)
    }

    /// Copies the range there, and back.
    fn copy(&mut self) -> Duration {
        let begin = Instant::now();
        black_box(self.to.bytes_mut()).copy_from_slice(black_box(self.from.bytes()));
        let took = begin.elapsed();
        black_box(self.from.bytes_mut()).copy_from_slice(black_box(self.to.bytes()));
        took
    }

    /// Figures of spaces that do not add up would mean nothing.
    fn check(&self) -> Result<(), Failure> {
        let all: Vec<&Space> = self.forks.iter().chain([&self.parent]).collect();
        self.spaces
            .verify(&all)
            .map_err(|error| Failure::because("the spaces are broken", error))
    }
}

fn fill(
    space: &Space,
    range: &std::ops::Range<u64>,
    byte: u8,
) -> Result<(), pagewell::space::Error> {
    let page = [byte; FRAME_BYTES];
    for addr in range.clone().step_by(FRAME_BYTES) {
        space.write(addr, &page)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_moves_the_range_whatever_maps_it() {
        for case in [Case::Forks, Case::Mapped4, Case::Mapped32] {
            let cell = Cell {
                case,
                block: 64 << 10,
                file_bytes: 0,
                threads: 1,
                forks: 40,
            };
            let mut stage = Stage::new(&cell).unwrap();
            for engine in HOW {
                stage.there_and_back(engine).unwrap();
            }
            stage.check().unwrap();
        }
    }
}
