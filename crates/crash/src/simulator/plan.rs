//! What a seed decides: the file, the cache, the threads, and what goes wrong.

use pagewell::io::SectorWrites;
use pagewell_io_testing::sim::Faults;
use pagewell_sync_testing::{Draw, Style};
use pagewell_testkit::Rng;

use crate::PAGE;
use crate::block::{BLOCK, Block};

/// Blocks of the smallest page.
pub(super) const A_PAGE: usize = PAGE / BLOCK;

/// Blocks of the largest page of a run.
pub(super) const LARGEST: usize = 2 * A_PAGE;

/// Neighbouring blocks that one thread writes: so threads share pages, and a thread's blocks reach over the border of pages.
const GROUP: usize = 5;

/// The version of all blocks before anything is done.
pub(super) const FIRST: u64 = 1;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing was written, or it was cut off.
    Zeros,
    /// What this operation has written: numbers grow with the operations of a thread.
    Version(u64),
}

impl Value {
    /// The content found at the place of block `nr`; none if it is torn or foreign.
    pub(super) fn of(nr: usize, bytes: &[u8]) -> Option<Self> {
        match Block::of(nr as u64, bytes) {
            Block::Zeros => Some(Self::Zeros),
            Block::Version(version) => Some(Self::Version(version)),
            Block::Foreign => None,
        }
    }
}

/// The blocks of the file: first those that are always there, each with a writer, then a tail that the first thread makes longer and shorter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) nr_blocks: usize,
    pub(super) most_tail: usize,
    pub(super) nr_threads: usize,
}

impl Shape {
    pub(super) fn most_blocks(self) -> usize {
        self.nr_blocks + self.most_tail
    }

    /// Who writes a block; none for the tail.
    pub(super) fn owner(self, block: usize) -> Option<usize> {
        (block < self.nr_blocks).then_some(block / GROUP % self.nr_threads)
    }

    /// Some neighbouring blocks of a writer.
    pub(super) fn own(self, thread: usize, rng: &mut Rng) -> std::ops::Range<usize> {
        let nr_groups = self.nr_blocks / GROUP / self.nr_threads;
        let group = rng.index(nr_groups) * self.nr_threads + thread;
        let start = rng.index(GROUP);
        let end = start + 1 + rng.index(GROUP - start);
        group * GROUP + start..group * GROUP + end
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) style: Style,
    pub(super) shape: Shape,
    pub(super) page_size: usize,
    pub(super) nr_frames: u64,
    /// How direct transfers are aligned; none for a buffered file.
    pub(super) direct: Option<usize>,
    pub(super) sectors: SectorWrites,
    /// How often the program starts.
    pub(super) nr_lives: u64,
    pub(super) nr_ops: u64,
    pub(super) about: About,
    /// What goes wrong in the engine.
    pub(super) engine: Faults,
    pub(super) storage: Storage,
    /// How many syncs of the device fail as Linux's do in each life: what they should have made durable is forgotten.
    pub(super) failed_syncs: u64,
    /// In how many of 256 cases the future of a read, or of a write, is dropped before it is ready.
    pub(super) drops: u64,
}

/// What most operations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    All,
    /// The tail is made longer and shorter while others read it in.
    Tail,
    /// Writes and syncs of all threads.
    Syncs,
}

/// What goes wrong in the storage, in so many of 256 calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    pub(super) late: u64,
    pub(super) failed: u64,
    pub(super) misdirected: u64,
}

impl Plan {
    /// `draw` is how threads are drawn; without it, by priorities for odd seeds.
    pub(super) fn of(seed: u64, draw: Option<Draw>) -> Self {
        let of_seed = match seed % 2 {
            0 => Draw::Uniform,
            _ => Draw::Priorities,
        };
        let mut rng = Rng::part(seed, 7);
        let nr_threads = 2 + rng.index(3);
        let kind = rng.below(8);
        let about = [About::All, About::All, About::Tail, About::Syncs][rng.index(4)];
        Self {
            seed,
            style: Style {
                stretch: [None, Some(500), Some(50), Some(12)][rng.index(4)],
                draw: draw.unwrap_or(of_seed),
            },
            shape: Shape {
                nr_blocks: GROUP * nr_threads * (2 + rng.index(10)),
                most_tail: 10 * A_PAGE,
                nr_threads,
            },
            page_size: PAGE << rng.below(2),
            nr_frames: [16, 20, 32, 64][rng.index(4)],
            direct: [None, Some(512), Some(4096)][rng.index(3)],
            sectors: match rng.one_in(3) {
                true => SectorWrites::Torn,
                false => SectorWrites::Whole,
            },
            nr_lives: 1 + rng.below(3),
            nr_ops: match about {
                About::All => 4 + rng.below(20),
                About::Tail | About::Syncs => 30 + rng.below(20),
            },
            about,
            engine: match kind {
                0 => Faults::default(),
                1..4 => Faults::harmless(),
                _ => Faults {
                    failed: 30,
                    ..Faults::harmless()
                },
            },
            storage: Storage {
                late: [0, 60, 160][rng.index(3)],
                failed: if kind >= 4 { 8 } else { 0 },
                misdirected: if kind == 7 { 6 } else { 0 },
            },
            failed_syncs: if kind >= 4 { rng.below(3) } else { 0 },
            drops: [0, 40, 120][rng.index(3)],
        }
    }

    /// Whether calls may fail while the power is on.
    pub(super) fn may_fail(&self) -> bool {
        self.storage.failed != 0 || self.engine.failed != 0 || self.failed_syncs != 0
    }
}
