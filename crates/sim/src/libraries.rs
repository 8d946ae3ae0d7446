//! Caches that people use, as they are.

use crate::cache::Cache;

/// The crate `quick_cache`.
#[derive(Debug)]
pub(crate) struct QuickCache(quick_cache::unsync::Cache<u32, ()>);

impl QuickCache {
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self(quick_cache::unsync::Cache::new(nr_frames))
    }
}

impl Cache for QuickCache {
    fn request(&mut self, page: u32) -> bool {
        let is_hit = self.0.get(&page).is_some();
        if !is_hit {
            self.0.insert(page, ());
        }
        is_hit
    }
}

/// The crate `moka`, with one segment.
///
/// It notes hits and insertions in queues, and works them off now and then: by the clock, or when a queue is long. Here that is done
/// after so many insertions that it is over its limit by at most a part in [`OVER`], and after so many hits that no hit is dropped.
#[derive(Debug)]
pub(crate) struct Moka {
    cache: moka::sync::Cache<u32, ()>,
    /// Hits and insertions that are in its queues.
    nr_noted: usize,
    nr_inserted: usize,
    /// After how many insertions the queues are worked off.
    most_inserted: usize,
}

/// After how many hits and insertions the queues are worked off.
const MOST_NOTED: usize = 64;

/// Which part of its pages it may have too many: one in so many. To work a queue off for each insertion takes ten times as long as all else.
const OVER: usize = 256;

impl Moka {
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            cache: moka::sync::Cache::new(nr_frames as u64),
            nr_noted: 0,
            nr_inserted: 0,
            most_inserted: (nr_frames / OVER).max(1),
        }
    }
}

impl Cache for Moka {
    fn request(&mut self, page: u32) -> bool {
        let is_hit = self.cache.get(&page).is_some();
        self.nr_noted += 1;
        if !is_hit {
            self.cache.insert(page, ());
            self.nr_inserted += 1;
        }
        if self.nr_inserted >= self.most_inserted || self.nr_noted >= MOST_NOTED {
            self.cache.run_pending_tasks();
            (self.nr_noted, self.nr_inserted) = (0, 0);
        }
        is_hit
    }
}
