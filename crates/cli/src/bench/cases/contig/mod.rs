//! `bench contig`: contiguous ranges of single frames, freed as blocks.
//!
//! Three strategies of the frame pool, each with a pool of its own, beside what no way to do it can do
//! without: a store for each frame that publishes its count, and a locked decrement that takes it away.

mod engines;
mod fragmentation;
mod lengths;
mod limit;
mod order9;

use pagewell_frame::{FRAME_BYTES, FramePool};

pub(in crate::bench) use self::engines::{ENGINES, LEGEND, RATIOS, STRATEGIES};
use self::engines::{HOW, check, new_pool};
use crate::bench::crew::{Lane, Schedule, Speeds, Staged, Timed, Watch, run_threads};
use crate::bench::plan::{Case, Cell, Settings};
use crate::failure::Failure;

/// Frames of a pool: enough for front caches of full size. They are addresses only, nothing touches
/// the memory itself.
const POOL_FRAMES: usize = 192 << 10;

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    settings: &Settings,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    if cell.case == Case::Fragmentation {
        return fragmentation::run(settings.rounds);
    }
    let pools = [
        new_pool(POOL_FRAMES)?,
        new_pool(POOL_FRAMES)?,
        new_pool(POOL_FRAMES)?,
    ];
    let mut workers = Vec::new();
    for _ in 0..cell.threads {
        workers.push(match cell.case {
            Case::Lengths => lanes_of_lengths(&pools, cell)?,
            _ => lanes_of_order9(&pools, settings.least_repeats(schedule.rounds)),
        });
    }
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    for (engine, pool) in STRATEGIES.iter().zip(&pools) {
        check(engine, pool)?;
    }
    Ok(speeds)
}

fn lanes_of_order9(pools: &[FramePool; 3], least: u64) -> Vec<Box<dyn Lane + '_>> {
    let mut lanes: Vec<Box<dyn Lane + '_>> = Vec::new();
    for (pool, how) in pools.iter().zip(HOW) {
        lanes.push(Box::new(Timed::at_least(
            order9::Freed::new(pool, how),
            least,
        )));
    }
    lanes.push(Box::new(Timed::at_least(order9::Limit::new(), least)));
    lanes
}

fn lanes_of_lengths<'a>(
    pools: &'a [FramePool; 3],
    cell: &Cell,
) -> Result<Vec<Box<dyn Lane + 'a>>, Failure> {
    let ranges = lengths::Ranges::new(cell.block / FRAME_BYTES as u64);
    let mut lanes: Vec<Box<dyn Lane + 'a>> = Vec::new();
    for (pool, how) in pools.iter().zip(HOW) {
        lanes.push(Box::new(Staged(lengths::Freed::new(pool, how, ranges)?)));
    }
    lanes.push(Box::new(Staged(lengths::Limit::new(ranges))));
    Ok(lanes)
}
