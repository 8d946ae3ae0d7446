//! `bench contig`: contiguous ranges of single frames, freed as blocks.
//!
//! Three strategies of the frame pool, each with a pool of its own, beside what no way to do it can do
//! without: a store for each frame that publishes its count, and a locked decrement that takes it away.

mod fragmentation;
mod lengths;
mod limit;
mod order9;

use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FRAME_BYTES, FramePool, FreeRange, Nodes, PoolConfig};

use super::Watch;
use super::crew::{Lane, Schedule, Speeds, Staged, Timed, run_threads};
use super::plan::{Case, Cell};
use crate::args::Settings;
use crate::failure::Failure;

const CHUNKED: &str = "chunked";
const MERGED: &str = "merged";
const ONE_BY_ONE: &str = "one-by-one";
const LIMIT: &str = "limit";

/// The engines, in the order of their lanes.
pub(super) const ENGINES: [&str; 4] = [CHUNKED, MERGED, ONE_BY_ONE, LIMIT];

/// The strategies alone, in the same order: the limit leaves no free memory behind.
pub(super) const STRATEGIES: [&str; 3] = [CHUNKED, MERGED, ONE_BY_ONE];

/// Which engine is compared with which.
pub(super) const RATIOS: [(&str, &str); 5] = [
    (CHUNKED, ONE_BY_ONE),
    (MERGED, ONE_BY_ONE),
    (CHUNKED, LIMIT),
    (MERGED, LIMIT),
    (CHUNKED, MERGED),
];

/// One line each, for people.
pub(super) const LEGEND: [(&str, &str); 4] = [
    (
        CHUNKED,
        "the range as the largest aligned blocks, put on the free lists as they are",
    ),
    (
        MERGED,
        "the same blocks, each made an allocated one again, and freed like any other",
    ),
    (
        ONE_BY_ONE,
        "the baseline: every frame goes through the allocator by itself",
    ),
    (
        LIMIT,
        "a bare decrement for each frame (order-9: and a plain store), and nothing else",
    ),
];

/// What the engines do, in the order of [`STRATEGIES`].
const HOW: [FreeRange; 3] = [FreeRange::Chunked, FreeRange::Merged, FreeRange::OneByOne];

/// Frames of a pool: enough for front caches of full size. They are addresses only, nothing touches
/// the memory itself.
const POOL_FRAMES: usize = 192 << 10;

/// Measures a cell.
pub(super) fn run(
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

/// One node, as large as a range may be, wherever the system puts it.
fn new_pool(nr_frames: usize) -> Result<FramePool<LockBit>, Failure> {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(1);
    FramePool::new(&config).map_err(|error| Failure::because("cannot make a frame pool", error))
}

/// Figures of a pool that does not add up would mean nothing.
fn check(engine: &str, pool: &FramePool) -> Result<(), Failure> {
    pool.verify()
        .map_err(|error| Failure::because(format_args!("the pool of {engine} is broken"), error))
}
