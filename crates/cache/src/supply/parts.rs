//! State of the frame supply: data for operations such as [`Allocator`](super::alloc::Allocator).

use std::mem::offset_of;
use std::sync::{OnceLock, Weak};

use pagewell_frame::FramePool;
use pagewell_policy::Notes;
use pagewell_sync::Mutex;
use pagewell_sync::parking::WaitTable;
use pagewell_sync::shard::{Padded, is_apart};

use crate::index::claims::Claims;
use crate::supply::budget::Budget;
use crate::supply::counters::Counters;
use crate::supply::leaf_stock::LeafStock;
use crate::supply::owners::LeafOwners;
use crate::supply::permits::InFlight;
use crate::supply::policy::Eviction;
use crate::supply::policy::clock::Clock;
use crate::supply::policy::queues::Queues;
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

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        &self.claims.pool
    }
}
