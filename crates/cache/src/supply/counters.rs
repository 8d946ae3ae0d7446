//! Statistics.

use pagewell_sync::atomic::{AtomicU64, Ordering};

/// Events that are rare enough to be counted where they happen; hits are not.
#[derive(Debug, Default)]
#[repr(align(128))] // Written by misses: no line with what hits load.
pub(crate) struct Counters {
    fills: AtomicU64,
    failed_fills: AtomicU64,
    evictions: AtomicU64,
}

/// One of [`Counters`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Fill,
    FailedFill,
    Eviction,
}

impl Counters {
    fn of(&self, event: Event) -> &AtomicU64 {
        match event {
            Event::Fill => &self.fills,
            Event::FailedFill => &self.failed_fills,
            Event::Eviction => &self.evictions,
        }
    }

    pub(crate) fn add(&self, event: Event, n: u64) {
        // Statistics are no part of any protocol, and a model need not explore them.
        if !cfg!(loom) {
            // ORDERING: Relaxed; a statistic.
            self.of(event).fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, event: Event) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.of(event).load(Ordering::Relaxed)
    }
}
