//! `bench space`: short reads of a memory space, of memory or of a file that is mapped there, beside a copy from plain
//! memory.

use std::hint::black_box;

use pagewell::space::{Sharing, Space};
use pagewell_frame::FRAME_BYTES;

use super::spaces::{filled, mapped, spaces};
use crate::bench::crew::{Lane, Op, Schedule, Speeds, Timed, Watch, run_threads};
use crate::bench::data::{Fixed, Memory, Positions, Uniform};
use crate::bench::plan::{Case, Cell, Settings};
use crate::failure::Failure;

const SPACE: &str = "space";
const MEMCPY: &str = "memcpy";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 2] = [SPACE, MEMCPY];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 1] = [(SPACE, MEMCPY)];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 2] = [
    (
        SPACE,
        "Space::read: optimistic, through directory and table, or through a file's index",
    ),
    (
        MEMCPY,
        "the limit: the bytes copied from plain memory of that size",
    ),
];

/// How many bytes a read has.
const BLOCK: usize = 64;

/// The bytes of the largest pages that a space has.
const HUGE_PAGE: usize = 2 << 20;

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    settings: &Settings,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    let bytes = cell.file_bytes;
    let (space, start) = match cell.case {
        Case::FileHot | Case::FileRandom => mapped(bytes, Sharing::Shared, settings.huge_pages)?,
        Case::PrivateRandom => mapped(bytes, Sharing::Private, settings.huge_pages)?,
        case => {
            let page_bytes = match case {
                Case::SpaceHugeHot | Case::SpaceHugeRandom => HUGE_PAGE,
                _ => FRAME_BYTES,
            };
            filled(&spaces(bytes, settings.huge_pages)?, bytes, page_bytes)?
        }
    };
    let memory = Memory::new(bytes as usize, settings.huge_pages)?;
    let workers = (0..cell.threads)
        .map(|worker| {
            let seed = u64::from(worker) + 1;
            match cell.case {
                Case::SpaceRandom
                | Case::SpaceHugeRandom
                | Case::FileRandom
                | Case::PrivateRandom => lanes(
                    &space,
                    start,
                    &memory,
                    Uniform::new(bytes, BLOCK as u64, seed),
                ),
                _ => lanes(&space, start, &memory, Fixed(0)),
            }
        })
        .collect();
    run_threads(schedule, cpus, workers, watch)
}

fn lanes<'a, P: Positions + 'a>(
    space: &'a Space,
    start: u64,
    memory: &'a Memory,
    positions: P,
) -> Vec<Box<dyn Lane + 'a>> {
    vec![
        Box::new(Timed::new(FromSpace {
            space,
            start,
            positions: positions.clone(),
        })),
        Box::new(Timed::new(FromMemory { memory, positions })),
    ]
}

struct FromSpace<'a, P> {
    space: &'a Space,
    start: u64,
    positions: P,
}

impl<P: Positions> Op for FromSpace<'_, P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let space = black_box(self.space);
        let mut buf = [0; BLOCK];
        for _ in 0..times {
            let addr = self.start + self.positions.next();
            if let Err(error) = space.read(addr, black_box(&mut buf[..])) {
                return Err(error.to_string());
            }
        }
        black_box(&buf);
        Ok(())
    }
}

struct FromMemory<'a, P> {
    memory: &'a Memory,
    positions: P,
}

impl<P: Positions> Op for FromMemory<'_, P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let bytes = black_box(self.memory.bytes());
        let mut buf = [0; BLOCK];
        for _ in 0..times {
            let at = self.positions.next() as usize;
            let Some(source) = bytes.get(at..at + BLOCK) else {
                return Err("a position outside of the memory".to_owned());
            };
            black_box(&mut buf[..]).copy_from_slice(source);
        }
        black_box(&buf);
        Ok(())
    }
}
