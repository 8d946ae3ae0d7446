//! Resources of the process and of a cache that a history must return.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use pagewell::Cache;
use pagewell_testkit::wait;

use crate::PAGE;

/// Waits until `excess` returns none, and panics with the last excess after [`wait::limit`].
#[track_caller]
fn settle(mut excess: impl FnMut() -> Option<String>) {
    let (start, limit) = (Instant::now(), wait::limit());
    while let Some(excess) = excess() {
        assert!(start.elapsed() < limit, "{excess}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Threads and descriptors of the process, by name.
#[derive(Debug)]
pub(crate) struct Census {
    threads: Vec<String>,
    descriptors: Vec<String>,
}

impl Census {
    pub(crate) fn take() -> Self {
        let names = |dir: &str, name: fn(PathBuf) -> Option<String>| {
            let entries = fs::read_dir(dir).unwrap().flatten();
            entries.filter_map(|entry| name(entry.path())).collect()
        };
        Self {
            threads: names("/proc/self/task", |task| {
                fs::read_to_string(task.join("comm")).ok()
            }),
            descriptors: names("/proc/self/fd", |link| {
                Some(fs::read_link(link).ok()?.display().to_string())
            }),
        }
    }

    /// Waits until the process has at most as many threads and descriptors as in this census.
    #[track_caller]
    pub(crate) fn settle(&self, when: &str) {
        settle(|| {
            let now = Self::take();
            let is_settled = now.threads.len() <= self.threads.len()
                && now.descriptors.len() <= self.descriptors.len();
            (!is_settled).then(|| format!("{when}: before {self:?}, now {now:?}"))
        });
    }
}

/// Waits until a cache without open files has all frames free.
pub(crate) fn assert_all_free(cache: &Cache) {
    settle(|| {
        let _quiet = cache.quiesce().unwrap();
        let stats = cache.stats();
        if stats.nr_free != stats.nr_frames || stats.nr_unclean != 0 {
            return Some(format!("frames in use without an open file: {stats:?}"));
        }
        cache.verify().unwrap();
        None
    });
}

/// Number of mappings, and of resident pages.
fn memory() -> [usize; 2] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let nr_resident = statm.split(' ').nth(1).unwrap().parse().unwrap();
    [maps.lines().count(), nr_resident]
}

/// Limit of the growth of the memory of the process over many histories.
#[derive(Debug, Default)]
pub(crate) struct MemoryGrowth {
    nr_histories: usize,
    /// Maxima over the first histories.
    max: [usize; 2],
}

impl MemoryGrowth {
    /// Number of histories that determine the maxima. The later ones are compared with these.
    const NR_FIRST: usize = 10;

    /// Allowed growth: freed stacks and memory of the allocator stay mapped.
    const SLACK: [usize; 2] = [200, (32 << 20) / PAGE];

    pub(crate) fn check(&mut self) {
        let now = memory();
        self.nr_histories += 1;
        if self.nr_histories <= Self::NR_FIRST {
            self.max = std::array::from_fn(|nr| self.max[nr].max(now[nr]));
        }
        let is_more = (0..2).any(|nr| now[nr] > self.max[nr] + Self::SLACK[nr]);
        assert!(!is_more, "mappings and resident pages: {now:?}, {self:?}");
    }
}
