//! `bench space`: short reads of a memory space, of memory or of a file that is mapped there, beside a copy from plain
//! memory.

use std::hint::black_box;

use pagewell::Cache;
use pagewell::frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, MapOptions, Policy, Protection, Sharing, Space, Spaces};
use pagewell_frame::FRAME_BYTES;

use super::Watch;
use super::crew::{Lane, Op, Schedule, Speeds, Timed, run_threads};
use super::fork::memory::Memory;
use super::plan::{Case, Cell};
use super::positions::{Fixed, Positions, Uniform};
use crate::args::Settings;
use crate::failure::Failure;

const SPACE: &str = "space";
const MEMCPY: &str = "memcpy";

/// The engines, in the order of their lanes.
pub(super) const ENGINES: [&str; 2] = [SPACE, MEMCPY];

/// Which engine is compared with which.
pub(super) const RATIOS: [(&str, &str); 1] = [(SPACE, MEMCPY)];

/// One line each, for people.
pub(super) const LEGEND: [(&str, &str); 2] = [
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

/// Measures a cell.
pub(super) fn run(
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
        _ => filled(&spaces(bytes, settings.huge_pages)?, bytes)?,
    };
    let memory = Memory::new(bytes as usize, settings.huge_pages)?;
    let workers = (0..cell.threads)
        .map(|worker| {
            let seed = u64::from(worker) + 1;
            match cell.case {
                Case::SpaceRandom | Case::FileRandom | Case::PrivateRandom => lanes(
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

/// Which pages the memory is to be made of.
fn pages(huge_pages: bool) -> HugePages {
    if huge_pages {
        HugePages::Advise
    } else {
        HugePages::Never
    }
}

/// A space with a file of so many bytes mapped, all of it cached, and where it begins.
fn mapped(bytes: u64, sharing: Sharing, huge_pages: bool) -> Result<(Space, u64), Failure> {
    let failed = |error| Failure::because("cannot map a file", error);
    let of_file = |error| Failure::because("cannot read a file", error);
    let cache = Cache::builder()
        .capacity(bytes * 2 + (16 << 20))
        .nodes(Nodes::Unbound(1))
        .huge_pages(pages(huge_pages))
        .build()
        .map_err(of_file)?;
    let backend = MemoryBackend::new(vec![0xA5; bytes as usize]);
    let file = cache.open_backend(backend, "memory").map_err(of_file)?;
    let space = cache.space().map_err(failed)?;
    let options = MapOptions::new().protection(Protection::Read);
    let area = space
        .map_file_with(&file, 0..bytes, sharing, &options)
        .map_err(failed)?;
    let mut page = [0; FRAME_BYTES];
    // Read in; and marked as referenced, so that the next read is a hit.
    for _ in 0..2 {
        for addr in area.clone().step_by(FRAME_BYTES) {
            space.read(addr, &mut page).map_err(failed)?;
        }
    }
    Ok((space, area.start))
}

/// Spaces with room for `bytes`, and as much again.
pub(super) fn spaces(bytes: u64, huge_pages: bool) -> Result<Spaces, Failure> {
    let nr_frames = bytes as usize / FRAME_BYTES * 2 + 1024;
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(1);
    config.huge_pages = pages(huge_pages);
    FramePool::new(&config)
        .map(Spaces::new)
        .map_err(|error| Failure::because("cannot make a frame pool", error))
}

/// A space with an area of so many bytes, all of them written, and where it begins.
pub(super) fn filled(spaces: &Spaces, bytes: u64) -> Result<(Space, u64), Failure> {
    let failed = |error| Failure::because("cannot fill a space", error);
    let space = spaces.space().map_err(failed)?;
    let area = space.map(bytes, Policy::Local).map_err(failed)?;
    let page = [0xA5; FRAME_BYTES];
    for addr in area.clone().step_by(FRAME_BYTES) {
        space.write(addr, &page).map_err(failed)?;
    }
    Ok((space, area.start))
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
