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
/// after each insertion, and after so many hits at the latest, so that no entry is over the limit and no hit is dropped.
#[derive(Debug)]
pub(crate) struct Moka {
    cache: moka::sync::Cache<u32, ()>,
    nr_noted: usize,
}

/// After how many hits the queues are worked off.
const MOST_NOTED: usize = 64;

impl Moka {
    pub(crate) fn new(nr_frames: usize) -> Self {
        Self {
            cache: moka::sync::Cache::new(nr_frames as u64),
            nr_noted: 0,
        }
    }
}

impl Cache for Moka {
    fn request(&mut self, page: u32) -> bool {
        let is_hit = self.cache.get(&page).is_some();
        self.nr_noted += 1;
        if !is_hit {
            self.cache.insert(page, ());
        }
        if !is_hit || self.nr_noted == MOST_NOTED {
            self.cache.run_pending_tasks();
            self.nr_noted = 0;
        }
        is_hit
    }
}
