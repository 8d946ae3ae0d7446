//! State of the frame supply: data for operations such as [`Allocator`](super::alloc::Allocator).

use std::fmt;
use std::mem::offset_of;
use std::sync::{OnceLock, Weak};

use pagewell_frame::{FramePool, UniqueFrame};
use pagewell_policy::Notes;
use pagewell_sync::Mutex;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{Padded, Shards, is_apart};

use crate::index::claim::{Claims, Leaf};
use crate::supply::budget::Budget;
use crate::supply::clock::Clock;
use crate::supply::leaf_stock::LeafStock;
use crate::supply::permits::InFlight;
use crate::supply::queues::{Eviction, Queues};
use crate::supply::transfers::Transfers;

#[derive(Debug)]
pub(crate) struct Supply {
    pub(crate) claims: Claims,
    pub(crate) clock: Clock,
    /// Queues behind the policy lock, which is acquired once per batch. `None` under CLOCK.
    pub(crate) queues: Option<Padded<Mutex<Queues>>>,
    pub(crate) counters: Counters,
    pub(crate) budget: Budget,
    pub(crate) transfers: Transfers,
    pub(crate) in_flight: InFlight,
    pub(crate) leaf_stock: LeafStock,
    /// Set before the first file is opened.
    pub(crate) owners: OnceLock<Weak<dyn LeafOwners>>,
}

// Claims and pins load `claims`. Misses and evictions write the others, on lines of their own.
const _: () = {
    type P = Supply;
    let written = [
        offset_of!(P, clock),
        offset_of!(P, budget),
        offset_of!(P, leaf_stock),
    ];
    let mut nr = 0;
    while nr < written.len() {
        assert!(is_apart::<P>(
            offset_of!(P, claims),
            size_of::<Claims>(),
            written[nr]
        ));
        nr += 1;
    }
};

impl Supply {
    pub(crate) fn new(pool: FramePool, eviction: Eviction, waits: WaitTable) -> Self {
        let (nr_frames, nr_nodes) = (pool.nr_frames(), pool.nr_nodes());
        let (queues, nr_notes) = match eviction {
            Eviction::Queues => (Some(Padded(Mutex::new(Queues::new(nr_frames)))), nr_frames),
            Eviction::Clock => (None, 0),
        };
        Self {
            claims: Claims::new(pool, Notes::new(nr_notes), waits),
            clock: Clock::new(nr_nodes),
            queues,
            counters: Counters::default(),
            budget: Budget::default(),
            transfers: Transfers::new(nr_nodes),
            in_flight: InFlight::new(nr_frames),
            leaf_stock: LeafStock::default(),
            owners: OnceLock::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_frames(nr_frames: usize) -> Self {
        let pool = FramePool::new(&pagewell_frame::PoolConfig::new(nr_frames)).unwrap();
        Self::new(pool, Eviction::default(), WaitTable::new())
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        &self.claims.pool
    }
}

/// Owner of the files to which leaves belong, which a higher layer registers.
pub(crate) trait LeafOwners: fmt::Debug + Send + Sync {
    /// Removes `held`, leaf number `leaf` of file `number`, from the file's index. Returns the
    /// leaf's frame, or `None` if the file is not open or the leaf is in use. Acquires only short
    /// locks, such as the registry lock, and those of ranks 12 and 13 (`docs/LOCKING.md`), to
    /// release withheld frames. So the caller may hold claims and locks of lower rank.
    fn take_leaf<'s>(&self, number: u64, leaf: usize, held: Leaf<'s>) -> Option<UniqueFrame<'s>>;
}

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
