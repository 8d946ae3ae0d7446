//! What is measured: cases, cells, and the stages that share a file.
//!
//! A *cell* is one row of a table: a case with a block size, a file size and a
//! number of workers. All engines are measured in each cell. A *stage* is the
//! cells that read or write the same file, so that files and caches are made once.

mod case;

use pagewell_frame::{FRAME_BYTES, Order};

pub(crate) use self::case::{Bench, Case};
use super::alloc;
use crate::args::Settings;

/// One row of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Cell {
    pub(super) case: Case,
    /// Bytes a read or a write; of `contig` and `alloc`, bytes of a range or block; of `fork` and `migrate`, bytes of
    /// the memory; 0 for counts.
    pub(super) block: u64,
    /// 0 where there is no file; of `space`, bytes of the space. Files that are appended to have that many at most.
    pub(super) file_bytes: u64,
    pub(super) threads: u32,
    /// Forks beside the space that is migrated; 0 elsewhere.
    pub(super) forks: u32,
}

impl Cell {
    /// The name of its case, with the number of forks where there is one.
    pub(super) fn case_name(&self) -> String {
        match self.forks {
            0 => self.case.name().to_owned(),
            forks if self.case == Case::Forks => format!("forks-{forks}"),
            forks => format!("{}-forks-{forks}", self.case.name()),
        }
    }
}

/// The cells that read, or write, the same file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Stage {
    pub(super) file_bytes: u64,
    pub(super) cells: Vec<Cell>,
}

impl Stage {
    pub(super) fn most_threads(&self) -> u32 {
        self.cells
            .iter()
            .map(|cell| cell.threads)
            .max()
            .unwrap_or(0)
    }

    pub(super) fn largest_block(&self) -> u64 {
        self.cells.iter().map(|cell| cell.block).max().unwrap_or(0)
    }

    pub(super) fn has(&self, case: Case) -> bool {
        self.cells.iter().any(|cell| cell.case == case)
    }
}

/// What limits a plan besides the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many workers can run at the same time.
    pub(super) nr_cpus: u32,
    /// Bytes of memory that can be taken, if known.
    pub(super) memory: Option<u64>,
    /// The size of the user's file, if there is one.
    pub(super) users_file: Option<u64>,
}

/// What will be measured, and what a reader should know about it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) refcount: Vec<Cell>,
    pub(super) read: Vec<Stage>,
    pub(super) write: Vec<Stage>,
    pub(super) contig: Vec<Cell>,
    pub(super) alloc: Vec<Cell>,
    pub(super) space: Vec<Cell>,
    pub(super) fork: Vec<Cell>,
    /// Without the cells of `second-walk`, which are measured beside others.
    pub(super) migrate: Vec<Cell>,
    pub(super) notes: Vec<String>,
}

const FULL_BLOCKS: [u64; 7] = [1, 32, 64, 256, 1024, 4096, 32_768];
const QUICK_BLOCKS: [u64; 2] = [64, 4096];
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
/// The operating system's pages of a file, and two caches with some room.
const MEMORY_PER_FILE_BYTE: u64 = 4;
/// The operating system's pages of a file for each engine, and a cache that may hold all of it dirty.
const MEMORY_PER_WRITTEN_BYTE: u64 = 6;

/// Bytes of a read of a space.
const SPACE_BLOCK: u64 = 64;
/// The memory that is forked, in pages of both sizes, and what is written after a fork.
const MEMORY_PER_FORKED_BYTE: u64 = 3;
/// A copy each of the forks', with the tables for them, and some room.
const MEMORY_PER_COPIED_BYTE: u64 = 2;
/// Numbers of forks of the sweep, and the most bytes of its range.
const SWEEP: [u32; 5] = [1, 10, 100, 1000, 10_000];
const SWEEP_BYTES: u64 = 512 << 10;

impl Plan {
    /// Plans the cells of a run.
    pub(super) fn new(settings: &Settings, limits: Limits) -> Plan {
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
        plan
    }

    /// All cells, in the order in which they are measured.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        let files = self.read.iter().chain(&self.write);
        let frames = self.contig.iter().chain(&self.alloc);
        let spaces = self.space.iter().chain(&self.fork).chain(&self.migrate);
        let files = files.flat_map(|stage| &stage.cells);
        self.refcount
            .iter()
            .chain(files)
            .chain(frames)
            .chain(spaces)
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
                crate::size::Bytes(block)
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
                crate::size::Bytes(fitting(forks))
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
            let order = alloc::order(case);
            let least = if case.needs_partner() { 2 } else { 1 };
            let fitting = threads
                .iter()
                .filter(|threads| (least..=alloc::MOST_THREADS).contains(threads));
            self.alloc
                .extend(fitting.map(|&threads| without_file(case, block_bytes(order), threads)));
        }
        if threads.iter().all(|&threads| threads < 2)
            && cases.iter().any(|case| case.needs_partner())
        {
            self.notes
                .push("the mixed cases are left out: they need two threads".to_owned());
        }
        if threads.iter().any(|&threads| threads > alloc::MOST_THREADS) {
            self.notes.push(format!(
                "bench alloc is measured with up to {} threads",
                alloc::MOST_THREADS
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
                for &block in blocks.iter().filter(|&&block| block <= file_bytes) {
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
            let cases = cases
                .into_iter()
                .filter(|case| !case.needs_own_files())
                .collect();
            return vec![(bytes, cases)];
        }
        if !settings.sizes.is_empty() {
            return settings
                .sizes
                .iter()
                .map(|&size| (size, cases.clone()))
                .collect();
        }
        let large = self.size_that_fits(limits.memory, MEMORY_PER_FILE_BYTE, RANDOM_SIZES[0]);
        if settings.quick {
            let (random, hot): (Vec<Case>, Vec<Case>) = cases
                .into_iter()
                .partition(|&case| case == Case::SameRandom);
            return vec![(QUICK_HOT_SIZE, hot), (large, random)];
        }
        let mut files: Vec<(u64, Vec<Case>)> = Vec::new();
        for size in FULL_SIZES.map(|size| size.min(large)) {
            if files.iter().all(|&(planned, _)| planned != size) {
                files.push((size, cases.clone()));
            }
        }
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
                crate::size::Bytes(size),
                crate::size::Bytes(wanted),
                crate::size::Bytes(memory),
            ));
        }
        size
    }
}

/// What is written at a time, if nobody asks for something else.
fn blocks_to_write(case: Case, is_quick: bool) -> &'static [u64] {
    match (case, is_quick) {
        (Case::Writeback, _) => &[WRITEBACK_BLOCK],
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

/// How many bytes of a file each of `threads` workers writes to: whole pages of the cache.
pub(super) fn part_of(file_bytes: u64, threads: u32, page_size: usize) -> u64 {
    let page_size = page_size as u64;
    file_bytes / u64::from(threads) / page_size * page_size
}

/// The cases of a benchmark that were asked for.
fn wanted(settings: &Settings, bench: Bench) -> Vec<Case> {
    let is_wanted = |case: &Case| {
        if settings.cases.is_empty() {
            !(settings.quick && case.is_only_in_full_run())
        } else {
            settings.cases.contains(case)
        }
    };
    bench.cases().iter().copied().filter(is_wanted).collect()
}

fn without_file(case: Case, block: u64, threads: u32) -> Cell {
    Cell {
        case,
        block,
        file_bytes: 0,
        threads,
        forks: 0,
    }
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
mod tests {
    use super::*;
    use crate::args::default_bench;

    const ROOMY: Limits = Limits {
        nr_cpus: 6,
        memory: Some(64 << 30),
        users_file: None,
    };

    fn full() -> Settings {
        Settings {
            quick: false,
            ..default_bench()
        }
    }

    #[test]
    fn the_quick_plan_is_what_the_bare_command_promises() {
        let plan = Plan::new(&default_bench(), ROOMY);
        for &case in Bench::Refcount.cases() {
            for threads in [1, 6] {
                let cell = Cell {
                    case,
                    block: 0,
                    file_bytes: 0,
                    threads,
                    forks: 0,
                };
                assert!(plan.refcount.contains(&cell), "{cell:?}");
            }
        }
        for (case, file_bytes) in [
            (Case::SameHot, 1 << 20),
            (Case::DiffHot, 1 << 20),
            (Case::SameRandom, 256 << 20),
        ] {
            for (block, threads) in [(64, 1), (64, 6), (4096, 1), (4096, 6)] {
                let cell = Cell {
                    case,
                    block,
                    file_bytes,
                    threads,
                    forks: 0,
                };
                assert!(plan.cells().any(|planned| *planned == cell), "{cell:?}");
            }
        }
        let of = |case: Case, block, threads| without_file(case, block, threads);
        let page_block = block_bytes(Order::PAGE_BLOCK);
        assert!(plan.contig.contains(&of(Case::Order9, page_block, 6)));
        assert!(plan.contig.contains(&of(Case::Lengths, 63 << 12, 1)));
        assert!(plan.alloc.contains(&of(Case::Order0Private, 4096, 1)));
        assert!(plan.alloc.contains(&of(Case::Order9Mixed, page_block, 6)));
        for (case, block, file_bytes, threads) in [
            (Case::WriteHot, 64, 64 << 20, 6),
            (Case::WriteRandom, 4096, 64 << 20, 1),
            (Case::WriteCommit64, 64, 64 << 20, 6),
            (Case::Append, 128, 1 << 20, 6),
            (Case::AppendCommit64, 128, 1 << 20, 1),
            (Case::Writeback, 1 << 20, 64 << 20, 1),
        ] {
            let cell = Cell {
                case,
                block,
                file_bytes,
                threads,
                forks: 0,
            };
            assert!(plan.cells().any(|planned| *planned == cell), "{cell:?}");
        }
        // Write: two cases with two blocks and three with one, each with two numbers of threads, and one more.
        // Contig: two numbers of threads, four lengths, fragmentation. Alloc: two private cases
        // with two numbers of threads, two mixed ones with one.
        // Space: five cases with two numbers of threads. Fork: two cases. Migrate: three, and the second walk beside them.
        let nr_writes = (2 * 2 + 3) * 2 + 1;
        let nr_spaces = 5 * 2 + 2 + 3;
        assert_eq!(
            plan.cells().count(),
            6 + 12 + nr_writes + (2 + 4 + 1) + (4 + 2) + nr_spaces
        );
        assert!(plan.migrate.iter().all(|cell| cell.forks == 100));
        assert!(plan.notes.is_empty());
    }

    #[test]
    fn the_full_plan_has_every_block_that_fits_in_its_file() {
        let plan = Plan::new(&full(), ROOMY);
        let cells_of = |file_bytes| {
            let stage = plan
                .read
                .iter()
                .find(|stage| stage.file_bytes == file_bytes);
            stage.map_or(0, |stage| stage.cells.len())
        };
        // Cases x blocks x numbers of threads (1, 2, 4, 6).
        assert_eq!(cells_of(4 << 10), 3 * 6 * 4);
        assert_eq!(cells_of(1 << 20), 3 * 7 * 4);
        assert_eq!(cells_of(256 << 20), 3 * 7 * 4);
    }

    #[test]
    fn little_memory_makes_the_large_file_smaller_and_is_told() {
        let limits = Limits {
            memory: Some(100 << 20),
            ..ROOMY
        };
        let only_reads = Settings {
            benches: vec![Bench::Read],
            ..full()
        };
        let plan = Plan::new(&only_reads, limits);
        let sizes: Vec<u64> = plan.read.iter().map(|stage| stage.file_bytes).collect();
        assert_eq!(sizes, [4 << 10, 1 << 20, 16 << 20]);
        assert_eq!(plan.notes.len(), 1);
        // What is forked and migrated fits too, and it is said.
        let plan = Plan::new(&full(), limits);
        assert!(plan.fork.iter().all(|cell| cell.block == 33 << 20));
        for cell in &plan.migrate {
            let copies = u64::from(cell.forks) + 2;
            assert!(cell.block == FRAME_BYTES as u64 || cell.block * copies <= 50 << 20);
        }
        // One each for the files that are read, those that are written, spaces, forks, and migrations.
        assert_eq!(plan.write[0].file_bytes, 16 << 20);
        assert_eq!(plan.notes.len(), 5);
    }

    #[test]
    fn a_users_file_is_read_as_it_is() {
        let limits = Limits {
            users_file: Some(5000),
            ..ROOMY
        };
        let plan = Plan::new(&full(), limits);
        assert_eq!(plan.read.len(), 1);
        assert!(plan.read[0].cells.iter().all(|cell| cell.block <= 5000));
        assert!(!plan.read[0].has(Case::DiffHot));
        assert!(plan.notes[0].contains("diff-hot"));
        assert!(plan.write.is_empty(), "a user's file is not written to");
    }

    #[test]
    fn a_block_that_a_threads_part_has_no_room_for_is_left_out() {
        let settings = Settings {
            benches: vec![Bench::Write],
            cases: vec![Case::WriteRandom, Case::Append],
            sizes: vec![64 << 10],
            threads: vec![1, 2, 40],
            ..full()
        };
        let plan = Plan::new(&settings, ROOMY);
        let of = |case, block| {
            let cells = plan.cells();
            let wanted = cells.filter(|cell| cell.case == case && cell.block == block);
            wanted.map(|cell| cell.threads).collect::<Vec<_>>()
        };
        assert_eq!(of(Case::WriteRandom, 64 << 10), [1]);
        assert_eq!(of(Case::WriteRandom, 16 << 10), [1, 2]);
        // A page for each of 40 threads is more than the file has.
        assert_eq!(of(Case::WriteRandom, 64), [1, 2]);
        assert_eq!(of(Case::Append, 128), [1, 2, 40]);
    }

    #[test]
    fn a_file_is_written_from_end_to_end_by_one_thread() {
        let settings = Settings {
            cases: vec![Case::Writeback],
            blocks: vec![64 << 10, 1 << 20, 2 << 20],
            sizes: vec![1 << 20],
            ..full()
        };
        let plan = Plan::new(&settings, ROOMY);
        let blocks: Vec<(u64, u32)> = plan.cells().map(|c| (c.block, c.threads)).collect();
        assert_eq!(blocks, [(64 << 10, 1), (1 << 20, 1)]);
    }

    #[test]
    fn more_workers_than_processors_are_told() {
        let settings = Settings {
            threads: vec![7],
            ..default_bench()
        };
        assert!(Plan::new(&settings, ROOMY).notes[0].contains("7 workers share 6"));
    }

    #[test]
    fn mixed_cases_need_two_threads() {
        let limits = Limits {
            nr_cpus: 1,
            ..ROOMY
        };
        let plan = Plan::new(&full(), limits);
        assert!(plan.alloc.iter().all(|cell| !cell.case.needs_partner()));
        assert!(plan.notes.iter().any(|note| note.contains("mixed")));
    }

    #[test]
    fn one_processor_is_measured_once() {
        let settings = full();
        assert_eq!(numbers_of_workers(&settings, 1), [1]);
        assert_eq!(numbers_of_workers(&settings, 2), [1, 2]);
        assert_eq!(
            numbers_of_workers(&settings, 96),
            [1, 2, 4, 8, 16, 32, 64, 96]
        );
    }
}
