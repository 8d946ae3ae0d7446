//! Which cells a run measures: what was asked for, as far as the machine has room for it.

use pagewell_frame::{FRAME_BYTES, Order};

use super::case::{Bench, Case};
use super::cell::{Cell, Stage, part_of, without_file};
use super::settings::Settings;
use crate::size::Bytes;

/// What limits a plan besides the settings.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Limits {
    /// How many workers can run at the same time.
    pub(in crate::bench) nr_cpus: u32,
    /// Bytes of memory that can be taken, if known.
    pub(in crate::bench) memory: Option<u64>,
    /// The size of the user's file, if there is one.
    pub(in crate::bench) users_file: Option<u64>,
}

/// What will be measured, and what a reader should know about it.
#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Plan {
    pub(in crate::bench) refcount: Vec<Cell>,
    pub(in crate::bench) pin: Vec<Cell>,
    pub(in crate::bench) read: Vec<Stage>,
    pub(in crate::bench) write: Vec<Stage>,
    pub(in crate::bench) contig: Vec<Cell>,
    pub(in crate::bench) alloc: Vec<Cell>,
    pub(in crate::bench) space: Vec<Cell>,
    pub(in crate::bench) fork: Vec<Cell>,
    /// Without the cells of `second-walk`, which are measured beside others.
    pub(in crate::bench) migrate: Vec<Cell>,
    pub(in crate::bench) tree: Vec<Cell>,
    pub(in crate::bench) cold: Vec<Cell>,
    pub(in crate::bench) notes: Vec<String>,
}

const FULL_BLOCKS: [u64; 7] = [1, 32, 64, 256, 1024, 4096, 32_768];
const QUICK_BLOCKS: [u64; 2] = [64, 4096];
/// Bytes of the reads of a curve: around each place where the copy goes another way, and between.
const CURVE_BLOCKS: [u64; 27] = [
    1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 32, 33, 48, 63, 64, 65, 80, 96, 127, 129, 192, 255,
    257, 384, 512,
];
/// Bytes of the reads that miss.
const MISS_BLOCKS: [u64; 1] = [4096];
/// The smallest file of which a quarter is a cache.
const LEAST_MISS_SIZE: u64 = 1 << 20;
const FULL_SIZES: [u64; 3] = [4 << 10, 1 << 20, 256 << 20];
const QUICK_HOT_SIZE: u64 = 1 << 20;
/// The file for random reads: larger than the processor's caches. The next ones
/// are for machines without the memory.
const RANDOM_SIZES: [u64; 4] = [256 << 20, 64 << 20, 16 << 20, 1 << 20];
/// Bytes of the writes at random positions, of those that are synced, and of records that are appended.
const FULL_WRITES: [u64; 5] = [64, 512, 4096, 16 << 10, 64 << 10];
const QUICK_WRITES: [u64; 2] = [64, 4096];
const FULL_COMMITS: [u64; 2] = [64, 4096];
const QUICK_COMMITS: [u64; 1] = [64];
const FULL_RECORDS: [u64; 2] = [128, 4096];
const QUICK_RECORDS: [u64; 1] = [128];
/// Bytes of the writes beside tasks that wait.
const WAITERS_WRITES: [u64; 1] = [64];
/// Bytes of the writes of a file from end to end.
const WRITEBACK_BLOCK: u64 = 1 << 20;
/// A file that is appended to is cut when it has that many bytes.
const LARGEST_LOG: u64 = 1 << 20;
const QUICK_WRITE_SIZE: u64 = 64 << 20;
/// Frames of the ranges that are freed.
const FULL_LENGTHS: [u64; 14] = [
    1, 2, 3, 7, 8, 63, 64, 511, 512, 513, 4095, 4096, 16_384, 65_536,
];
const QUICK_LENGTHS: [u64; 4] = [1, 63, 513, 4096];
/// The operating system's pages of a file, two caches with some room, and three times a quarter of the file.
const MEMORY_PER_FILE_BYTE: u64 = 5;
/// The operating system's pages of a file for each engine, and a cache that may hold all of it dirty.
const MEMORY_PER_WRITTEN_BYTE: u64 = 6;

/// The file that is read from the device.
const QUICK_COLD_SIZE: u64 = 64 << 20;
const LEAST_COLD_SIZE: u64 = 4 << 20;
/// Bytes of a read of it from end to end.
const SEQUENTIAL_BLOCK: u64 = 64 << 10;
/// Bytes of a read of a space.
const SPACE_BLOCK: u64 = 64;
/// Bytes of a key of a tree and its value.
const TREE_ENTRY: u64 = 128;
/// The memory that is forked, in pages of both sizes, and what is written after a fork.
const MEMORY_PER_FORKED_BYTE: u64 = 3;
/// A copy each of the forks', with the tables for them, and some room.
const MEMORY_PER_COPIED_BYTE: u64 = 2;
/// The most workers of `alloc`: the frames for them fill the largest bitmap that is fast.
pub(in crate::bench) const MOST_ALLOC_THREADS: u32 = 64;
/// Numbers of forks of the sweep, and the most bytes of its range.
const SWEEP: [u32; 5] = [1, 10, 100, 1000, 10_000];
const SWEEP_BYTES: u64 = 512 << 10;

impl Plan {
    /// Plans the cells of a run.
    pub(in crate::bench) fn new(settings: &Settings, limits: Limits) -> Plan {
        let mut plan = Plan::default();
        let threads = numbers_of_workers(settings, limits.nr_cpus);
        if let Some(&most) = threads.iter().max()
            && most > limits.nr_cpus
        {
            plan.notes.push(format!(
                "{most} workers share {} processor{}: they take turns, and the figures say so",
                limits.nr_cpus,
                if limits.nr_cpus == 1 { "" } else { "s" },
            ));
        }
        if settings.asks_for(Bench::Refcount) {
            for case in wanted(settings, Bench::Refcount) {
                plan.refcount.extend(
                    threads
                        .iter()
                        .map(|&threads| without_file(case, 0, threads)),
                );
            }
        }
        if settings.asks_for(Bench::Pin) {
            for case in wanted(settings, Bench::Pin) {
                let cells = threads.iter();
                plan.pin
                    .extend(cells.map(|&threads| without_file(case, 0, threads)));
            }
        }
        if settings.asks_for(Bench::Read) {
            plan.plan_reads(settings, limits, &threads);
        }
        if settings.asks_for(Bench::Write) {
            plan.plan_writes(settings, limits, &threads);
        }
        if settings.asks_for(Bench::Contig) {
            plan.plan_contig(settings, &threads);
        }
        if settings.asks_for(Bench::Alloc) {
            plan.plan_alloc(settings, &threads);
        }
        if settings.asks_for(Bench::Space) {
            plan.plan_space(settings, limits, &threads);
        }
        if settings.asks_for(Bench::Fork) {
            plan.plan_fork(settings, limits);
        }
        if settings.asks_for(Bench::Migrate) {
            plan.plan_migrate(settings, limits);
        }
        if settings.asks_for(Bench::Tree) {
            for case in wanted(settings, Bench::Tree) {
                let cells = threads.iter();
                plan.tree
                    .extend(cells.map(|&threads| without_file(case, TREE_ENTRY, threads)));
            }
        }
        if settings.asks_for(Bench::Cold) {
            plan.plan_cold(settings, limits);
        }
        plan
    }

    /// All cells, in the order in which they are measured.
    pub(in crate::bench) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let files = self.read.iter().chain(&self.write);
        let frames = self.contig.iter().chain(&self.alloc);
        let spaces = self.space.iter().chain(&self.fork).chain(&self.migrate);
        let files = files.flat_map(|stage| &stage.cells);
        self.refcount
            .iter()
            .chain(&self.pin)
            .chain(files)
            .chain(frames)
            .chain(spaces)
            .chain(&self.tree)
            .chain(&self.cold)
    }

    /// Leaves only the cells that `is_kept` returns true for.
    pub(in crate::bench) fn retain(&mut self, is_kept: impl Fn(&Cell) -> bool) {
        for stage in self.read.iter_mut().chain(&mut self.write) {
            stage.cells.retain(&is_kept);
        }
        self.read.retain(|stage| !stage.cells.is_empty());
        self.write.retain(|stage| !stage.cells.is_empty());
        for cells in [
            &mut self.refcount,
            &mut self.pin,
            &mut self.contig,
            &mut self.alloc,
            &mut self.space,
            &mut self.fork,
            &mut self.migrate,
            &mut self.tree,
            &mut self.cold,
        ] {
            cells.retain(&is_kept);
        }
    }

    /// Numbers of threads are those of the cases, whatever was asked for.
    fn plan_cold(&mut self, settings: &Settings, limits: Limits) {
        if limits.users_file.is_some() {
            self.notes
                .push("bench cold is left out: it reads and writes a file of its own".to_owned());
            return;
        }
        let default = if settings.quick {
            QUICK_COLD_SIZE
        } else {
            RANDOM_SIZES[0]
        };
        let file_bytes = settings.sizes.iter().copied().max().unwrap_or(default);
        // Whole transfers of all engines.
        let file_bytes = (file_bytes >> 20 << 20).max(LEAST_COLD_SIZE);
        for case in wanted(settings, Bench::Cold) {
            let (block, threads) = match case {
                Case::Sequential => (SEQUENTIAL_BLOCK, 1),
                Case::RandomThreads32 => (FRAME_BYTES as u64, 32),
                Case::CommitThreads64 => (FRAME_BYTES as u64, 64),
                _ => (FRAME_BYTES as u64, 1),
            };
            let file_bytes = match case {
                Case::CommitThreads64 => block * u64::from(threads),
                _ => file_bytes,
            };
            self.cold.push(Cell {
                file_bytes,
                ..without_file(case, block, threads)
            });
        }
    }

    fn plan_space(&mut self, settings: &Settings, limits: Limits, threads: &[u32]) {
        let file_bytes = self.size_that_fits(limits.memory, MEMORY_PER_FILE_BYTE, RANDOM_SIZES[0]);
        for case in wanted(settings, Bench::Space) {
            let cells = threads.iter().map(|&threads| Cell {
                block: SPACE_BLOCK,
                file_bytes,
                ..without_file(case, 0, threads)
            });
            self.space.extend(cells);
        }
    }

    fn plan_fork(&mut self, settings: &Settings, limits: Limits) {
        let mib = settings
            .mib
            .unwrap_or(if settings.quick { 64 } else { 1024 });
        let memory = limits.memory.unwrap_or(u64::MAX) / MEMORY_PER_FORKED_BYTE;
        let block = (mib << 20).min(memory >> 20 << 20).max(1 << 20);
        if block < mib << 20 {
            self.notes.push(format!(
                "{} are forked instead of {mib} MiB: there is not more memory",
                Bytes(block)
            ));
        }
        let cases = wanted(settings, Bench::Fork).into_iter();
        self.fork
            .extend(cases.map(|case| without_file(case, block, 1)));
    }

    fn plan_migrate(&mut self, settings: &Settings, limits: Limits) {
        let (forks, mib) = match settings.quick {
            true => (100, 1),
            false => (1000, 5),
        };
        let forks = settings.forks.unwrap_or(forks);
        let mib = settings.mib.unwrap_or(mib);
        let memory = limits.memory.unwrap_or(u64::MAX) / MEMORY_PER_COPIED_BYTE;
        // Whole pages, so that all forks can have a copy.
        let fitting = |forks: u32| {
            let most = memory / (u64::from(forks) + 2);
            let most = most - most % FRAME_BYTES as u64;
            most.clamp(FRAME_BYTES as u64, mib << 20)
        };
        if fitting(forks) < mib << 20 {
            self.notes.push(format!(
                "{} are migrated instead of {mib} MiB: {forks} forks need a copy each",
                Bytes(fitting(forks))
            ));
        }
        let cell = |case, forks, block| Cell {
            forks,
            ..without_file(case, block, 1)
        };
        let cases = wanted(settings, Bench::Migrate);
        let main = [Case::Forks, Case::Mapped4, Case::Mapped32];
        for case in main.into_iter().filter(|case| cases.contains(case)) {
            self.migrate.push(cell(case, forks, fitting(forks)));
        }
        // The sweep: the same range for all, so that they can be compared.
        if cases.contains(&Case::Forks) && !settings.quick && settings.forks.is_none() {
            let block = fitting(SWEEP[SWEEP.len() - 1]).min(SWEEP_BYTES);
            self.migrate
                .extend(SWEEP.map(|forks| cell(Case::Forks, forks, block)));
        }
        if self.migrate.is_empty() && cases.contains(&Case::SecondWalk) {
            self.migrate.push(cell(Case::Forks, forks, fitting(forks)));
        }
    }

    fn plan_contig(&mut self, settings: &Settings, threads: &[u32]) {
        let lengths: &[u64] = if settings.quick {
            &QUICK_LENGTHS
        } else {
            &FULL_LENGTHS
        };
        for case in wanted(settings, Bench::Contig) {
            match case {
                Case::Lengths => self.contig.extend(
                    lengths
                        .iter()
                        .map(|nr| without_file(case, nr * FRAME_BYTES as u64, 1)),
                ),
                Case::Fragmentation => self.contig.push(without_file(case, 0, 1)),
                _ => {
                    self.contig.extend(threads.iter().map(|&threads| {
                        without_file(case, block_bytes(Order::PAGE_BLOCK), threads)
                    }))
                }
            }
        }
    }

    fn plan_alloc(&mut self, settings: &Settings, threads: &[u32]) {
        let cases = wanted(settings, Bench::Alloc);
        for &case in &cases {
            let order = case.order();
            let least = if case.needs_partner() { 2 } else { 1 };
            let fitting = threads
                .iter()
                .filter(|threads| (least..=MOST_ALLOC_THREADS).contains(threads));
            self.alloc
                .extend(fitting.map(|&threads| without_file(case, block_bytes(order), threads)));
        }
        if threads.iter().all(|&threads| threads < 2)
            && cases.iter().any(|case| case.needs_partner())
        {
            self.notes
                .push("the mixed cases are left out: they need two threads".to_owned());
        }
        if threads.iter().any(|&threads| threads > MOST_ALLOC_THREADS) {
            self.notes.push(format!(
                "bench alloc is measured with up to {} threads",
                MOST_ALLOC_THREADS
            ));
        }
    }

    fn plan_reads(&mut self, settings: &Settings, limits: Limits, threads: &[u32]) {
        let blocks: &[u64] = match (settings.blocks.as_slice(), settings.quick) {
            ([], true) => &QUICK_BLOCKS,
            ([], false) => &FULL_BLOCKS,
            (chosen, _) => chosen,
        };
        for (file_bytes, cases) in self.files(settings, limits) {
            let mut cells = Vec::new();
            for case in cases {
                let blocks = match case {
                    Case::MissBuffered if settings.blocks.is_empty() => &MISS_BLOCKS,
                    case if case.is_curve() && settings.blocks.is_empty() => &CURVE_BLOCKS[..],
                    _ => blocks,
                };
                let threads = match settings.threads.as_slice() {
                    [] if case.is_curve() => &[1],
                    _ => threads,
                };
                // The first odd offset is 1.
                let most = file_bytes - u64::from(case.is_curve());
                for &block in blocks.iter().filter(|&&block| block <= most) {
                    cells.extend(threads.iter().map(|&threads| Cell {
                        case,
                        block,
                        file_bytes,
                        threads,
                        forks: 0,
                    }));
                }
            }
            if !cells.is_empty() {
                self.read.push(Stage { file_bytes, cells });
            }
        }
        if self.read.is_empty() {
            self.notes.push(
                "no read is measured: every block is larger than the file, or its case is left out"
                    .to_owned(),
            );
        }
    }

    fn plan_writes(&mut self, settings: &Settings, limits: Limits, threads: &[u32]) {
        if limits.users_file.is_some() {
            self.notes
                .push("bench write is left out: it does not write to a file of yours".to_owned());
            return;
        }
        let cases = wanted(settings, Bench::Write);
        let sizes = match settings.sizes.as_slice() {
            [] if settings.quick => {
                vec![self.size_that_fits(limits.memory, MEMORY_PER_WRITTEN_BYTE, QUICK_WRITE_SIZE)]
            }
            [] => {
                vec![self.size_that_fits(limits.memory, MEMORY_PER_WRITTEN_BYTE, RANDOM_SIZES[0])]
            }
            chosen => chosen.to_vec(),
        };
        for file_bytes in sizes {
            let mut cells = Vec::new();
            for &case in &cases {
                let blocks = match settings.blocks.as_slice() {
                    [] => blocks_to_write(case, settings.quick),
                    chosen => chosen,
                };
                cells.extend(cells_of_writes(settings, case, file_bytes, blocks, threads));
            }
            if !cells.is_empty() {
                self.write.push(Stage { file_bytes, cells });
            }
        }
        if self.write.is_empty() {
            self.notes.push(
                "no write is measured: every block is larger than a thread's part of the file, \
                 or its case is left out"
                    .to_owned(),
            );
        }
    }

    /// The sizes of the files, each with the cases that read it.
    fn files(&mut self, settings: &Settings, limits: Limits) -> Vec<(u64, Vec<Case>)> {
        let cases = wanted(settings, Bench::Read);
        if let Some(bytes) = limits.users_file {
            if cases.iter().any(|case| case.needs_own_files()) {
                self.notes
                    .push("diff-hot is left out: it needs a file for each thread".to_owned());
            }
            let misses = cases.contains(&Case::MissBuffered);
            if misses && bytes < LEAST_MISS_SIZE {
                self.notes.push(format!(
                    "miss-buffered is left out: it needs a file of {}",
                    Bytes(LEAST_MISS_SIZE)
                ));
            }
            let is_possible = |case: &Case| {
                !case.needs_own_files() && (*case != Case::MissBuffered || bytes >= LEAST_MISS_SIZE)
            };
            return vec![(bytes, cases.into_iter().filter(is_possible).collect())];
        }
        let (misses, cases): (Vec<Case>, Vec<Case>) = cases
            .into_iter()
            .partition(|&case| case == Case::MissBuffered);
        let (curves, cases): (Vec<Case>, Vec<Case>) = if settings.sizes.is_empty() {
            cases.into_iter().partition(|case| case.is_curve())
        } else {
            (Vec::new(), cases)
        };
        if !settings.sizes.is_empty() {
            let sizes = settings.sizes.iter();
            let mut files = sizes.clone().map(|&size| (size, cases.clone())).collect();
            for size in sizes.map(|&size| size.max(LEAST_MISS_SIZE)) {
                add_cases(&mut files, size, &misses);
            }
            return files;
        }
        let large = self.size_that_fits(limits.memory, MEMORY_PER_FILE_BYTE, RANDOM_SIZES[0]);
        if settings.quick {
            let (random, hot): (Vec<Case>, Vec<Case>) = cases
                .into_iter()
                .partition(|&case| case == Case::SameRandom);
            let mut files = vec![(QUICK_HOT_SIZE, hot), (large, random)];
            add_cases(&mut files, large, &misses);
            add_curves(&mut files, large, &curves);
            return files;
        }
        let mut files: Vec<(u64, Vec<Case>)> = Vec::new();
        for size in FULL_SIZES.map(|size| size.min(large)) {
            if files.iter().all(|&(planned, _)| planned != size) {
                files.push((size, cases.clone()));
            }
        }
        // Larger than the processor's caches.
        add_cases(&mut files, large, &misses);
        add_curves(&mut files, large, &curves);
        files
    }

    /// The largest of [`RANDOM_SIZES`], at most `wanted`, for which the memory suffices: so many bytes for each of
    /// the file's.
    fn size_that_fits(&mut self, memory: Option<u64>, per_byte: u64, wanted: u64) -> u64 {
        let memory = memory.unwrap_or(u64::MAX);
        let [.., least] = RANDOM_SIZES;
        let fits = |size: &u64| *size <= wanted && size * per_byte <= memory;
        let size = RANDOM_SIZES.into_iter().find(fits).unwrap_or(least);
        if size < wanted {
            self.notes.push(format!(
                "the large file has {} instead of {}: only {} of memory can be taken",
                Bytes(size),
                Bytes(wanted),
                Bytes(memory),
            ));
        }
        size
    }
}

/// Adds curves: what is hot of a small file, what is random of one of this size.
fn add_curves(files: &mut Vec<(u64, Vec<Case>)>, size: u64, curves: &[Case]) {
    for &case in curves {
        let size = match case {
            Case::CurveHot => QUICK_HOT_SIZE.min(size),
            _ => size,
        };
        add_cases(files, size, &[case]);
    }
}

/// Adds cases that read a file of this size, each once.
fn add_cases(files: &mut Vec<(u64, Vec<Case>)>, size: u64, cases: &[Case]) {
    let at = match files.iter().position(|&(planned, _)| planned == size) {
        Some(at) => at,
        None => {
            files.push((size, Vec::new()));
            files.len() - 1
        }
    };
    let (_, planned) = &mut files[at];
    for case in cases {
        if !planned.contains(case) {
            planned.push(*case);
        }
    }
}

/// What is written at a time, if nobody asks for something else.
fn blocks_to_write(case: Case, is_quick: bool) -> &'static [u64] {
    match (case, is_quick) {
        (Case::Writeback, _) => &[WRITEBACK_BLOCK],
        (Case::WriteBesideWaiters, _) => &WAITERS_WRITES,
        (case, true) if case.appends() => &QUICK_RECORDS,
        (case, false) if case.appends() => &FULL_RECORDS,
        (case, true) if case.group().is_some() => &QUICK_COMMITS,
        (case, false) if case.group().is_some() => &FULL_COMMITS,
        (_, true) => &QUICK_WRITES,
        (_, false) => &FULL_WRITES,
    }
}

/// The cells of a case in which a thread has room for a block.
fn cells_of_writes(
    settings: &Settings,
    case: Case,
    file_bytes: u64,
    blocks: &[u64],
    threads: &[u32],
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for &block in blocks {
        let cell = |file_bytes, block, threads| Cell {
            case,
            block,
            file_bytes,
            threads,
            forks: 0,
        };
        if case == Case::Writeback {
            let cell = cell(file_bytes, block.min(file_bytes), 1);
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        } else if case.appends() {
            let log = file_bytes.min(LARGEST_LOG);
            let fitting = threads.iter().filter(|_| block <= log);
            cells.extend(fitting.map(|&threads| cell(log, block, threads)));
        } else {
            let fitting = threads
                .iter()
                .filter(|&&threads| block <= part_of(file_bytes, threads, settings.page_size));
            cells.extend(fitting.map(|&threads| cell(file_bytes, block, threads)));
        }
    }
    cells
}

/// The cases of a benchmark that were asked for.
fn wanted(settings: &Settings, bench: Bench) -> Vec<Case> {
    let is_wanted = |case: &Case| {
        if settings.cases.is_empty() {
            !(settings.quick && case.is_only_in_full_run() || case.is_curve())
        } else {
            settings.cases.contains(case)
        }
    };
    bench.cases().iter().copied().filter(is_wanted).collect()
}

fn block_bytes(order: Order) -> u64 {
    order.bytes() as u64
}

/// The numbers of workers: as asked for, or 1 and all, with powers of two between.
fn numbers_of_workers(settings: &Settings, nr_cpus: u32) -> Vec<u32> {
    if !settings.threads.is_empty() {
        return settings.threads.clone();
    }
    let mut numbers = vec![1];
    if !settings.quick {
        numbers.extend((1..32).map(|shift| 1 << shift).take_while(|&n| n < nr_cpus));
    }
    if nr_cpus > 1 {
        numbers.push(nr_cpus);
    }
    numbers
}

#[cfg(test)]
mod tests;
