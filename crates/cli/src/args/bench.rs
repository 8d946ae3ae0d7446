//! The command line of `pagewell bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use super::values::{Usage, parse_capacity, parse_in, parse_page_size, parse_seconds};
use crate::bench::{Bench, Case, DEFAULT_PAGE_SIZE, DEFAULT_ROUNDS, Settings, default_seconds};
use crate::copies::Wanted;
use crate::output::Format;

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Which benchmark to run
    #[arg(value_enum, default_value_t = What::All)]
    what: What,

    /// Numbers of workers, such as 1,2,4 [default: 1, 2, 4... up to all processors; --quick: 1 and all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    threads: Vec<u32>,

    /// Measured seconds of each figure, over all its rounds [default: 0.5; --quick: 0.2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// Rounds in which the engines take turns; a figure is the median of its rounds [default: 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Few and short measurements: few sizes of blocks, 1 and all threads
    #[arg(long)]
    quick: bool,

    /// How to print: tables for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Only these cases (repeatable, or separated by commas)
    #[arg(long = "case", value_enum, value_name = "CASE", value_delimiter = ',')]
    cases: Vec<Case>,

    /// Read this file instead of temporary ones. It is opened read-only; nobody may change it meanwhile
    #[arg(long, value_name = "PATH", conflicts_with = "sizes")]
    file: Option<PathBuf>,

    /// Bytes a read or write, such as 64,4K [default: by case; see docs/benchmarks.md]
    #[arg(long = "block", value_name = "LIST", value_delimiter = ',', value_parser = parse_block)]
    blocks: Vec<u64>,

    /// Sizes of the temporary files [default: 4K,1M,256M to read, 256M to write; --quick: 1M for hot and 256M for random reads, 64M to write; a tree gets the largest, about: 190M; --quick: 19M]
    #[arg(
        long = "size",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = parse_file_size
    )]
    sizes: Vec<u64>,

    /// Page size of the cache: 4K, 8K, 16K, 32K or 64K [default: 4K]
    #[arg(long, value_name = "BYTES", value_parser = parse_page_size)]
    page_size: Option<usize>,

    /// Whether to ask for huge pages, for the cache's memory and for the mapping [default: yes]
    #[arg(long, value_enum, value_name = "ANSWER")]
    huge_pages: Option<Answer>,

    /// Width of the moves that copy more than 64 bytes, for comparisons; see `pagewell info`
    #[arg(long, value_enum, value_name = "WIDTH")]
    copy: Option<Wanted>,

    /// Memory of each cache, such as 512M [default: what the file needs]
    #[arg(long, value_name = "BYTES", value_parser = parse_capacity)]
    capacity: Option<u64>,

    /// Forks beside the space that is migrated [default: 1000, and a sweep from 1 to 10000; --quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    forks: Option<u32>,

    /// MiB that are migrated [default: 5; --quick: 1], or forked [default: 1024; --quick: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    mib: Option<u64>,

    /// Where to make the temporary files [default: the system's folder for them]
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum What {
    /// The reference count: lock bit, compare-and-swap loop, bare additions
    Refcount,
    /// Pins of hot pages: announced, counted
    Pin,
    /// Cached reads: optimistic, referenced, pread, memcpy from a mapping
    Read,
    /// Writes to cached pages, appends, syncs and writeback: Pagewell, pwrite, memcpy to a mapping, fio
    Write,
    /// Contiguous ranges of frames: freed as large blocks, or one by one
    Contig,
    /// Frames and large blocks: allocated and freed by Pagewell's pool, and by its peers
    Alloc,
    /// Short reads of a memory space, and copies from plain memory
    Space,
    /// Snapshots of memory: forks of a space, and fork(2)
    Fork,
    /// A range of a space moved to another memory node, however many forks there are
    Migrate,
    /// Gets from a B+tree by views, pins, whole pages and a mapping; inserts with a log
    Tree,
    /// Reads of a file that is in no cache, and commits of many threads: Pagewell, pread, fio, fdatasync
    Cold,
    /// All of them
    All,
}

impl What {
    fn benches(self) -> Vec<Bench> {
        match self {
            What::Refcount => vec![Bench::Refcount],
            What::Pin => vec![Bench::Pin],
            What::Read => vec![Bench::Read],
            What::Write => vec![Bench::Write],
            What::Contig => vec![Bench::Contig],
            What::Alloc => vec![Bench::Alloc],
            What::Space => vec![Bench::Space],
            What::Fork => vec![Bench::Fork],
            What::Migrate => vec![Bench::Migrate],
            What::Tree => vec![Bench::Tree],
            What::Cold => vec![Bench::Cold],
            What::All => Bench::ALL.to_vec(),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Answer {
    Yes,
    No,
}

const LARGEST_BLOCK: u64 = 64 << 20;
const LARGEST_FILE: u64 = 1 << 40;

impl BenchArgs {
    /// Checks what the parser alone cannot see.
    pub(crate) fn settings(self) -> Result<Settings, Usage> {
        self.refuse_unused()?;
        self.refuse_directory()?;
        self.refuse_empty_plan()?;
        Ok(Settings {
            benches: self.what.benches(),
            quick: self.quick,
            format: self.format,
            threads: without_repeats(self.threads),
            seconds: self.seconds.unwrap_or(default_seconds(self.quick)),
            has_own_seconds: self.seconds.is_some(),
            rounds: self.rounds.unwrap_or(DEFAULT_ROUNDS),
            cases: self.cases,
            file: self.file,
            blocks: without_repeats(self.blocks),
            sizes: without_repeats(self.sizes),
            page_size: self.page_size.unwrap_or(DEFAULT_PAGE_SIZE),
            huge_pages: self.huge_pages != Some(Answer::No),
            copy: self.copy.unwrap_or(Wanted::Auto),
            capacity: self.capacity,
            dir: self.dir,
            forks: self.forks,
            mib: self.mib,
        })
    }

    /// A flag that would change nothing was meant for something else.
    fn refuse_unused(&self) -> Result<(), Usage> {
        let benches = self.what.benches();
        if let [bench] = benches.as_slice()
            && *bench == Bench::Write
            && self.file.is_some()
        {
            return Err(Usage::new(
                ErrorKind::ArgumentConflict,
                "--file is of no use to `bench write`, which writes to temporary files only"
                    .to_owned(),
            ));
        }
        if let [Bench::Cold] = benches.as_slice() {
            let unused = [
                ("--file", self.file.is_some()),
                ("--block", !self.blocks.is_empty()),
            ];
            if let Some((flag, _)) = unused.iter().find(|(_, given)| *given) {
                return Err(Usage::new(
                    ErrorKind::ArgumentConflict,
                    format!(
                        "{flag} is of no use to `bench cold`: its cases have files and blocks of \
                         their own"
                    ),
                ));
            }
        }
        if let [bench] = benches.as_slice()
            && !matches!(bench, Bench::Read | Bench::Write | Bench::Cold)
        {
            let unused = [
                ("--file", self.file.is_some()),
                ("--block", !self.blocks.is_empty()),
                ("--size", !self.sizes.is_empty()),
                ("--page-size", self.page_size.is_some()),
                ("--huge-pages", self.huge_pages.is_some()),
                ("--capacity", self.capacity.is_some()),
                ("--dir", self.dir.is_some()),
            ];
            // Whether memory is in huge pages matters to reads of a space too; and a tree is as large as is wanted.
            let is_used = |flag: &str| match bench {
                Bench::Space => flag == "--huge-pages",
                Bench::Tree => matches!(flag, "--size" | "--huge-pages" | "--dir"),
                _ => false,
            };
            let unused = unused.iter().filter(|(flag, _)| !is_used(flag));
            if let Some((flag, _)) = unused.clone().find(|(_, given)| *given) {
                return Err(Usage::new(
                    ErrorKind::ArgumentConflict,
                    format!(
                        "{flag} is of no use to `bench {}`, which has no file",
                        bench.name()
                    ),
                ));
            }
        }
        if let [bench @ (Bench::Refcount | Bench::Pin | Bench::Contig | Bench::Alloc)] =
            benches.as_slice()
            && self.copy.is_some()
        {
            return Err(Usage::new(
                ErrorKind::ArgumentConflict,
                format!(
                    "--copy is of no use to `bench {}`, which copies nothing",
                    bench.name()
                ),
            ));
        }
        let is_of = |of: &[Bench]| benches.iter().any(|bench| of.contains(bench));
        let unused = [
            ("--forks", self.forks.is_some() && !is_of(&[Bench::Migrate])),
            (
                "--mib",
                self.mib.is_some() && !is_of(&[Bench::Migrate, Bench::Fork]),
            ),
        ];
        if let Some((flag, _)) = unused.iter().find(|(_, unused)| *unused) {
            return Err(Usage::new(
                ErrorKind::ArgumentConflict,
                format!("{flag} is of no use to this benchmark, which moves and forks no memory"),
            ));
        }
        match self
            .cases
            .iter()
            .find(|case| !benches.contains(&case.bench()))
        {
            None => Ok(()),
            Some(case) => Err(Usage::new(
                ErrorKind::ArgumentConflict,
                format!(
                    "the case {} belongs to `bench {}`",
                    case.name(),
                    case.bench().name()
                ),
            )),
        }
    }

    /// Cases, blocks and sizes that leave nothing to measure.
    fn refuse_empty_plan(&self) -> Result<(), Usage> {
        if self.file.is_some() && !self.cases.is_empty() {
            let possible = |case: &Case| !case.needs_own_files();
            if !self.cases.iter().any(possible) {
                return Err(Usage::new(
                    ErrorKind::ArgumentConflict,
                    "--file names one file, and diff-hot needs one for each thread".to_owned(),
                ));
            }
        }
        match (self.blocks.iter().min(), self.sizes.iter().max()) {
            (Some(block), Some(size)) if block > size => Err(Usage::new(
                ErrorKind::ArgumentConflict,
                "every --block is larger than every --size".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn refuse_directory(&self) -> Result<(), Usage> {
        match &self.file {
            Some(path) if path.is_dir() => Err(Usage::new(
                ErrorKind::ValueValidation,
                format!("--file {} is a directory; it takes a file", path.display()),
            )),
            _ => Ok(()),
        }
    }
}

/// Keeps the first of equal values, in the order given.
fn without_repeats<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

fn parse_block(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=LARGEST_BLOCK)
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=LARGEST_FILE)
}
