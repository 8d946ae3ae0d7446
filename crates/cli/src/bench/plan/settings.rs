//! A benchmark run as it was asked for.

use std::path::PathBuf;
use std::time::Duration;

use pagewell::HugePages;

use super::case::{Bench, Case};
use crate::copies::Wanted;
use crate::output::Format;

pub(crate) const DEFAULT_ROUNDS: u32 = 15;
pub(crate) const DEFAULT_PAGE_SIZE: usize = 4096;

/// Measured seconds of each figure, unless others are asked for.
pub(crate) fn default_seconds(quick: bool) -> Duration {
    Duration::from_millis(if quick { 200 } else { 500 })
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
    /// The quick run of everything, `bench all --quick`.
    pub(crate) fn quick() -> Settings {
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

    /// Whether caches ask for huge pages.
    pub(in crate::bench) fn huge_pages(&self) -> HugePages {
        if self.huge_pages {
            HugePages::Advise
        } else {
            HugePages::Never
        }
    }

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
