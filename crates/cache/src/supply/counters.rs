use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::Shards;

/// Counts of events that are rare enough to be counted one by one.
#[derive(Debug, Default)]
pub(crate) struct Counters(Shards<Counts>);

#[derive(Debug, Default)]
struct Counts {
    fills: AtomicU64,
    failed_fills: AtomicU64,
    evictions: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Fill,
    FailedFill,
    Eviction,
}

impl Counts {
    fn of(&self, event: Event) -> &AtomicU64 {
        match event {
            Event::Fill => &self.fills,
            Event::FailedFill => &self.failed_fills,
            Event::Eviction => &self.evictions,
        }
    }
}

impl Counters {
    pub(crate) fn add(&self, event: Event, n: u64) {
        if !cfg!(loom) {
            // ORDERING: Relaxed; a statistic.
            let mine = self.0.get(self.0.own());
            mine.of(event).fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, event: Event) -> u64 {
        // ORDERING: Relaxed; a statistic.
        let counts = self.0.iter();
        counts
            .map(|counts| counts.of(event).load(Ordering::Relaxed))
            .sum()
    }
}
