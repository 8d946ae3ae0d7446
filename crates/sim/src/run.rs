//! Running requests through a cache.

use std::fmt;
use std::str::FromStr;

use crate::arc::Arc;
use crate::belady;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::libraries::{Moka, QuickCache};
use crate::lru::Lru;
use crate::pagewell::Pagewell;
use crate::s3_fifo::S3Fifo;

/// What decides which page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The policy that Pagewell ships: its very code.
    Pagewell,
    /// CLOCK with one mark a page.
    Clock,
    /// The page that was not used for the longest time.
    Lru,
    /// S3-FIFO, with the sizes of its paper.
    S3Fifo,
    /// ARC.
    Arc,
    /// The crate `quick_cache`.
    QuickCache,
    /// The crate `moka`.
    Moka,
    /// The limit: the future is known.
    Belady,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pagewell,
        Self::Clock,
        Self::Lru,
        Self::S3Fifo,
        Self::Arc,
        Self::QuickCache,
        Self::Moka,
        Self::Belady,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pagewell => "pagewell",
            Self::Clock => "clock",
            Self::Lru => "lru",
            Self::S3Fifo => "s3-fifo",
            Self::Arc => "arc",
            Self::QuickCache => "quick_cache",
            Self::Moka => "moka",
            Self::Belady => "belady",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Policy::ALL.map(Policy::name).join(", ");
        write!(f, "no policy is called '{}'; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// After how many requests the caller is told.
const TICK: u64 = 1 << 16;

/// How many of the requests are hits in a cache of so many pages, which is empty at first.
///
/// `requests` are numbers of pages, in order; memory is taken for each number up to the largest. `tick` is called now and then, and at
/// the end, with the number of requests that are done.
pub fn hits(policy: Policy, pages: usize, requests: &[u32], tick: &mut dyn FnMut(u64)) -> u64 {
    let nr_pages = requests.iter().max().map_or(0, |&page| page as usize + 1);
    // More frames than pages are never used.
    let nr_frames = pages.min(nr_pages);
    if nr_frames == 0 {
        tick(requests.len() as u64);
        return 0;
    }
    match policy {
        Policy::Pagewell => run(Pagewell::new(nr_frames, nr_pages), requests, tick),
        Policy::Clock => run(Clock::new(nr_frames, nr_pages), requests, tick),
        Policy::Lru => run(Lru::new(nr_frames, nr_pages), requests, tick),
        Policy::S3Fifo => run(S3Fifo::new(nr_frames, nr_pages), requests, tick),
        Policy::Arc => run(Arc::new(nr_frames, nr_pages), requests, tick),
        Policy::QuickCache => run(QuickCache::new(nr_frames), requests, tick),
        Policy::Moka => run(Moka::new(nr_frames), requests, tick),
        Policy::Belady => {
            let hits = belady::hits(nr_frames, nr_pages, requests, |done| {
                if done.is_multiple_of(TICK) {
                    tick(done);
                }
            });
            tick(requests.len() as u64);
            hits
        }
    }
}

fn run(mut cache: impl Cache, requests: &[u32], tick: &mut dyn FnMut(u64)) -> u64 {
    let mut hits = 0;
    let mut done = 0;
    for some in requests.chunks(TICK as usize) {
        for &page in some {
            hits += u64::from(cache.request(page));
        }
        done += some.len() as u64;
        tick(done);
    }
    hits
}
