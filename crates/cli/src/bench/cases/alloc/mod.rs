//! `bench alloc`: allocating and freeing page frames, and blocks of 512 of them.
//!
//! Every engine is an allocator of the same number of frames, shared by all workers, made for the cell
//! and gone after it. A block is owned by a handle that frees it when dropped, in every engine. Nobody
//! touches the memory that the blocks stand for: what is compared is the allocators' own work.

mod bitmap;
mod buddy_slab;
mod buddy_system;
mod frame_alloc;
mod frames;
mod locked;
mod mixed;
mod pagewell;
mod private;
mod region;
mod ring;
mod system;

use self::frames::Frames;
use self::mixed::Circle;
use self::private::{Bursts, Pairs};
use crate::bench::crew::{Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

const PAGEWELL: &str = "pagewell";
const SYSTEM: &str = "system";
const BUDDY_SLAB: &str = "buddy-slab";
const BUDDY_SYSTEM: &str = "buddy-system";
const BITMAP: &str = "bitmap";
const FRAME_ALLOC: &str = "frame-alloc";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 6] = [
    PAGEWELL,
    SYSTEM,
    BUDDY_SLAB,
    BUDDY_SYSTEM,
    BITMAP,
    FRAME_ALLOC,
];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 5] = [
    (PAGEWELL, SYSTEM),
    (PAGEWELL, BUDDY_SLAB),
    (PAGEWELL, BUDDY_SYSTEM),
    (PAGEWELL, BITMAP),
    (PAGEWELL, FRAME_ALLOC),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 6] = [
    (
        PAGEWELL,
        "the frame pool: a buddy allocator with front caches",
    ),
    (SYSTEM, "the system's allocator, aligned to 4096 bytes"),
    (
        BUDDY_SLAB,
        "crate buddy-slab-allocator: its page allocator, behind a spin lock",
    ),
    (
        BUDDY_SYSTEM,
        "crate buddy_system_allocator: FrameAllocator, behind a spin lock",
    ),
    (
        BITMAP,
        "crate bitmap-allocator: BitAlloc1M, behind a spin lock",
    ),
    (
        FRAME_ALLOC,
        "crate frame-alloc: its lock-free buddy allocator with caches for each processor",
    ),
];

/// Frames of each allocator, at the least: enough for front caches of full size. They are addresses only.
const LEAST_FRAMES: usize = 192 << 10;

/// Frames for each worker: a burst of page blocks, those on their way to another thread, and what caches
/// keep.
const FRAMES_A_WORKER: usize = 16 << 10;

/// Blocks of a burst of single frames: as many as a front cache holds.
const BURST_OF_FRAMES: usize = 64;

/// Blocks of a burst of page blocks: more than a front cache holds.
const BURST_OF_PAGE_BLOCKS: usize = 8;

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    let nr_frames = LEAST_FRAMES.max(FRAMES_A_WORKER * cell.threads as usize);
    let pool = pagewell::new(nr_frames)?;
    let buddy_slab = buddy_slab::new(nr_frames)?;
    let buddy_system = buddy_system::new(nr_frames);
    let bitmap = bitmap::new(nr_frames)?;
    let frame_alloc = frame_alloc::FrameAlloc::new(nr_frames)?;
    // In the order of `ENGINES`.
    let mut teams: [Box<dyn Team + '_>; ENGINES.len()] = [
        Box::new(Users::new(&pool, cell)),
        Box::new(Users::new(&system::System, cell)),
        Box::new(Users::new(&buddy_slab, cell)),
        Box::new(Users::new(&buddy_system, cell)),
        Box::new(Users::new(&bitmap, cell)),
        Box::new(Users::new(&frame_alloc, cell)),
    ];
    let mut workers: Vec<Vec<Box<dyn Lane + '_>>> = Vec::new();
    workers.resize_with(cell.threads as usize, Vec::new);
    for team in &mut teams {
        for (lanes, lane) in workers.iter_mut().zip(team.lanes()) {
            lanes.push(lane);
        }
    }
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    drop(teams);
    // Figures of a pool that does not add up would mean nothing.
    pool.verify()
        .map_err(|error| Failure::because("the frame pool is broken", error))?;
    Ok(speeds)
}

/// The workers' parts of one engine.
trait Team {
    /// One lane for each worker.
    fn lanes(&mut self) -> Vec<Box<dyn Lane + '_>>;
}

/// The workers that share an allocator.
struct Users<'a, F: Frames> {
    frames: &'a F,
    cell: &'a Cell,
    /// Of all workers in the mixed cases, of none in the others.
    circle: Circle<'a, F>,
}

impl<'a, F: Frames> Users<'a, F> {
    fn new(frames: &'a F, cell: &'a Cell) -> Users<'a, F> {
        let nr_in_circle = if cell.case.needs_partner() {
            cell.threads
        } else {
            0
        };
        Users {
            frames,
            cell,
            circle: Circle::new(frames, cell.case.order(), nr_in_circle),
        }
    }
}

impl<F: Frames> Team for Users<'_, F> {
    fn lanes(&mut self) -> Vec<Box<dyn Lane + '_>> {
        let frames = self.frames;
        let order = self.cell.case.order();
        let each = 0..self.cell.threads;
        match self.cell.case {
            Case::Order0Mixed | Case::Order9Mixed => self.circle.workers().map(lane).collect(),
            Case::Order0Burst => each
                .map(|_| lane(Bursts::new(frames, order, BURST_OF_FRAMES)))
                .collect(),
            Case::Order9Burst => each
                .map(|_| lane(Bursts::new(frames, order, BURST_OF_PAGE_BLOCKS)))
                .collect(),
            _ => each.map(|_| lane(Pairs::new(frames, order))).collect(),
        }
    }
}

fn lane<'a>(op: impl Op + 'a) -> Box<dyn Lane + 'a> {
    Box::new(Timed::new(op))
}

#[cfg(test)]
mod tests;
