//! The command line.
//!
//! The parser and [`BenchArgs::settings`] refuse everything that is bad usage
//! (exit code 2); what they let through can only fail at run time (exit code 1).

mod crash_test;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub(crate) use self::crash_test::{
    CrashTestArgs, CrashTestSettings, CrashTestWriterArgs, Mode as CrashTestMode,
};
use crate::bench::plan::{Bench, Case};
use crate::copies::Wanted;
use crate::size;

/// Benchmarks, crash tests and information of Pagewell, a user-space page cache.
///
/// Without a command: `bench all --quick`, which takes less than a minute.
#[derive(Debug, Parser)]
#[command(name = "pagewell", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare the cache's fast paths with what they replace, on this machine
    Bench(Box<BenchArgs>),
    /// Show what of this machine matters to a page cache
    Info(InfoArgs),
    /// Kill writers and lose power, and check that everything that was synced is there
    CrashTest(CrashTestArgs),
    /// One worker process of `bench refcount`; its standard input is the memory that it shares
    #[command(hide = true)]
    BenchWorker(WorkerArgs),
    /// The process of `crash-test kill` that writes until it is killed
    #[command(hide = true)]
    CrashTestWriter(CrashTestWriterArgs),
}

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// How to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct WorkerArgs {
    /// Which of the team's workers this is
    #[arg(long)]
    pub(crate) worker: u32,
    /// The processor to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// The process that started this one
    #[arg(long)]
    pub(crate) parent: i32,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Which benchmark to run
    #[arg(value_enum, default_value_t = What::All)]
    what: What,

    /// Numbers of workers, such as 1,2,4 [default: 1, 2, 4... up to all processors; --quick: 1 and all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
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

    /// Sizes of the temporary files [default: 4K,1M,256M to read, 256M to write; --quick: 1M for hot and 256M for random reads, 64M to write]
    #[arg(long = "size", value_name = "LIST", value_delimiter = ',', value_parser = parse_file_size)]
    sizes: Vec<u64>,

    /// Page size of the cache: 4K, 8K, 16K, 32K or 64K [default: 4K]
    #[arg(long, value_name = "BYTES", value_parser = parse_page_size)]
    page_size: Option<usize>,

    /// Whether to ask for huge pages, for the cache's memory and for the mapping [default: yes]
    #[arg(long, value_enum, value_name = "ANSWER")]
    huge_pages: Option<Answer>,

    /// How the cache and its spaces copy more than 64 bytes: for comparisons; see `pagewell info`
    #[arg(long, value_enum, value_name = "VARIANT")]
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
    /// All of them
    All,
}

impl What {
    fn benches(self) -> Vec<Bench> {
        match self {
            What::Refcount => vec![Bench::Refcount],
            What::Read => vec![Bench::Read],
            What::Write => vec![Bench::Write],
            What::Contig => vec![Bench::Contig],
            What::Alloc => vec![Bench::Alloc],
            What::Space => vec![Bench::Space],
            What::Fork => vec![Bench::Fork],
            What::Migrate => vec![Bench::Migrate],
            What::All => Bench::ALL.to_vec(),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Answer {
    Yes,
    No,
}

/// A benchmark run as it was asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) benches: Vec<Bench>,
    pub(crate) quick: bool,
    pub(crate) format: Format,
    /// Numbers of workers; empty for the default.
    pub(crate) threads: Vec<u32>,
    pub(crate) seconds: Duration,
    /// Whether somebody asked for just that long.
    pub(crate) has_own_seconds: bool,
    pub(crate) rounds: u32,
    /// The cases to run; empty for all.
    pub(crate) cases: Vec<Case>,
    pub(crate) file: Option<PathBuf>,
    /// Block sizes in bytes; empty for the default.
    pub(crate) blocks: Vec<u64>,
    /// File sizes in bytes; empty for the default.
    pub(crate) sizes: Vec<u64>,
    pub(crate) page_size: usize,
    pub(crate) huge_pages: bool,
    /// How bytes are copied.
    pub(crate) copy: Wanted,
    /// Bytes of each cache, if given.
    pub(crate) capacity: Option<u64>,
    pub(crate) dir: Option<PathBuf>,
    /// Forks beside the space that is migrated, if given.
    pub(crate) forks: Option<u32>,
    /// MiB that are migrated or forked, if given.
    pub(crate) mib: Option<u64>,
}

/// How often the full run does at the least what was published with a number of times.
const PUBLISHED_TIMES: u64 = 100_000;

impl Settings {
    /// Whether a benchmark is to be run.
    pub(crate) fn asks_for(&self, bench: Bench) -> bool {
        let has_case = |case: &Case| case.bench() == bench;
        self.benches.contains(&bench) && (self.cases.is_empty() || self.cases.iter().any(has_case))
    }

    /// How often each of `rounds` rounds does at the least what was published with a number of times.
    pub(crate) fn least_repeats(&self, rounds: u32) -> u64 {
        if self.quick || self.has_own_seconds {
            1
        } else {
            PUBLISHED_TIMES.div_ceil(u64::from(rounds))
        }
    }
}

/// What the bare command runs.
pub(crate) fn default_bench() -> Settings {
    Settings {
        benches: Bench::ALL.to_vec(),
        quick: true,
        format: Format::Table,
        threads: Vec::new(),
        seconds: default_seconds(true),
        has_own_seconds: false,
        rounds: DEFAULT_ROUNDS,
        cases: Vec::new(),
        file: None,
        blocks: Vec::new(),
        sizes: Vec::new(),
        page_size: DEFAULT_PAGE_SIZE,
        huge_pages: true,
        copy: Wanted::Auto,
        capacity: None,
        dir: None,
        forks: None,
        mib: None,
    }
}

const DEFAULT_ROUNDS: u32 = 15;
const DEFAULT_PAGE_SIZE: usize = 4096;
const PAGE_SIZES: std::ops::RangeInclusive<u64> = 4096..=65_536;
const LARGEST_BLOCK: u64 = 64 << 20;
const LARGEST_FILE: u64 = 1 << 40;

fn default_seconds(quick: bool) -> Duration {
    Duration::from_millis(if quick { 200 } else { 500 })
}

impl BenchArgs {
    /// Checks what the parser alone cannot see.
    pub(crate) fn settings(self) -> Result<Settings, clap::Error> {
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
    fn refuse_unused(&self) -> Result<(), clap::Error> {
        let benches = self.what.benches();
        if let [bench] = benches.as_slice()
            && *bench == Bench::Write
            && self.file.is_some()
        {
            return Err(usage(
                ErrorKind::ArgumentConflict,
                "--file is of no use to `bench write`, which writes to temporary files only"
                    .to_owned(),
            ));
        }
        if let [bench] = benches.as_slice()
            && !matches!(bench, Bench::Read | Bench::Write)
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
            // Whether memory is in huge pages matters to reads of a space too.
            let is_used = |flag: &str| *bench == Bench::Space && flag == "--huge-pages";
            let unused = unused.iter().filter(|(flag, _)| !is_used(flag));
            if let Some((flag, _)) = unused.clone().find(|(_, given)| *given) {
                return Err(usage(
                    ErrorKind::ArgumentConflict,
                    format!(
                        "{flag} is of no use to `bench {}`, which has no file",
                        bench.name()
                    ),
                ));
            }
        }
        if let [bench @ (Bench::Refcount | Bench::Contig | Bench::Alloc)] = benches.as_slice()
            && self.copy.is_some()
        {
            return Err(usage(
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
            return Err(usage(
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
            Some(case) => Err(usage(
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
    fn refuse_empty_plan(&self) -> Result<(), clap::Error> {
        if self.file.is_some() && !self.cases.is_empty() {
            let possible = |case: &Case| !case.needs_own_files();
            if !self.cases.iter().any(possible) {
                return Err(usage(
                    ErrorKind::ArgumentConflict,
                    "--file names one file, and diff-hot needs one for each thread".to_owned(),
                ));
            }
        }
        match (self.blocks.iter().min(), self.sizes.iter().max()) {
            (Some(block), Some(size)) if block > size => Err(usage(
                ErrorKind::ArgumentConflict,
                "every --block is larger than every --size".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn refuse_directory(&self) -> Result<(), clap::Error> {
        match &self.file {
            Some(path) if path.is_dir() => Err(usage(
                ErrorKind::ValueValidation,
                format!("--file {} is a directory; it takes a file", path.display()),
            )),
            _ => Ok(()),
        }
    }
}

/// An error of `bench`.
fn usage(kind: ErrorKind, message: String) -> clap::Error {
    usage_of("bench", kind, message)
}

/// An error of a command in the form of the parser's own.
fn usage_of(command: &str, kind: ErrorKind, message: String) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(kind, message),
        None => cli.error(kind, message),
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

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("expected between 0.001 and 3600 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_block(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=LARGEST_BLOCK)
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=LARGEST_FILE)
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=u64::MAX)
}

fn parse_page_size(text: &str) -> Result<usize, String> {
    let bytes = size::parse(text)?;
    if !PAGE_SIZES.contains(&bytes) || !bytes.is_power_of_two() {
        return Err("a page is 4K, 8K, 16K, 32K or 64K".to_owned());
    }
    usize::try_from(bytes).map_err(|error| error.to_string())
}

fn parse_in(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = size::parse(text)?;
    if range.contains(&bytes) {
        Ok(bytes)
    } else if bytes == 0 {
        Err("it must not be zero".to_owned())
    } else {
        Err(format!("at most {} bytes", range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Result<Settings, ErrorKind> {
        let words = std::iter::once("pagewell").chain(line.split_whitespace());
        match Cli::try_parse_from(words)
            .map_err(|error| error.kind())?
            .command
        {
            Some(Command::Bench(args)) => args.settings().map_err(|error| error.kind()),
            other => panic!("not a benchmark: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_bare_command_is_the_quick_run_of_everything() {
        let bare = format!("{:?}", default_bench());
        let spelled = format!("{:?}", settings("bench all --quick").unwrap());
        assert_eq!(bare, spelled);
    }

    #[test]
    fn lists_are_split_and_lose_their_repeats() {
        let settings = settings("bench read --threads 2,1,2 --block 64,4K,64").unwrap();
        assert_eq!(settings.threads, [2, 1]);
        assert_eq!(settings.blocks, [64, 4096]);
        assert!(settings.asks_for(Bench::Read) && !settings.asks_for(Bench::Refcount));
    }

    #[test]
    fn a_case_selects_its_benchmark() {
        let settings = settings("bench --case own-count,order-9").unwrap();
        let asked: Vec<Bench> = Bench::ALL
            .into_iter()
            .filter(|bench| settings.asks_for(*bench))
            .collect();
        assert_eq!(asked, [Bench::Refcount, Bench::Contig]);
    }

    #[test]
    fn the_published_number_of_times_is_done_in_the_full_run_only() {
        let least = |line: &str| settings(line).unwrap().least_repeats(15);
        assert!(least("bench contig") * 15 >= PUBLISHED_TIMES);
        assert_eq!(least("bench contig --quick"), 1);
        assert_eq!(least("bench contig --seconds 0.1"), 1);
    }

    #[test]
    fn values_that_make_no_sense_are_bad_usage() {
        for line in [
            "bench --threads 0",
            "bench --threads 1,,2",
            "bench --threads 5000",
            "bench --seconds 0",
            "bench --seconds -1",
            "bench --seconds nan",
            "bench --seconds inf",
            "bench --rounds 0",
            "bench read --page-size 5000",
            "bench read --page-size 2K",
            "bench read --page-size 128K",
            "bench read --capacity 0",
            "bench read --capacity 99999999T",
            "bench read --block 0",
            "bench read --size 0",
            "bench read --huge-pages maybe",
            "bench read --file x --size 4K",
            "bench read --file x --dir y",
            "bench read --file /",
            "bench read --file x --case diff-hot",
            "bench read --block 64K --size 4K,16K",
            "bench read --case one-count",
            "bench refcount --case same-hot",
            "bench refcount --file x",
            "bench refcount --capacity 1G",
            "bench contig --block 4K",
            "bench contig --copy avx",
            "bench read --copy avx1024",
            "bench contig --case order-0-private",
            "bench contig --case order-8",
            "bench alloc --case lengths",
            "bench alloc --page-size 4K",
            "bench write --file x",
            "bench write --case same-hot",
            "bench read --case writeback",
            "bench alloc --case append",
            "bench --format xml",
        ] {
            assert!(settings(line).is_err(), "{line}");
        }
    }
}
