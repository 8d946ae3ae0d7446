//! What supply is made of.

use std::sync::{OnceLock, Weak};

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;

use crate::index::claims::Claims;
use crate::supply::budget::Budget;
use crate::supply::counters::Counters;
use crate::supply::leaf_stock::LeafStock;
use crate::supply::owners::LeafOwners;
use crate::supply::permits::InFlight;
use crate::supply::policy::clock::Clock;
use crate::supply::transfers::Transfers;

/// The state of supply. What is done with it is in types of its own: [`Allocator`](super::alloc::Allocator) and the others.
#[derive(Debug)]
pub(crate) struct Supply<S: RefScheme> {
    pub(crate) claims: Claims<S>,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) budget: Budget,
    /// Frames that will be free to evict soon.
    pub(crate) transfers: Transfers,
    pub(crate) in_flight: InFlight,
    pub(crate) leaf_stock: LeafStock,
    /// Who has the files that leaves belong to; none before there is a file.
    pub(crate) owners: OnceLock<Weak<dyn LeafOwners<S>>>,
}

impl<S: RefScheme> Supply<S> {
    pub(crate) fn new(pool: FramePool<S>) -> Self {
        let (nr_frames, nr_nodes) = (pool.nr_frames(), pool.nr_nodes());
        Self {
            claims: Claims::new(pool),
            clock: Clock::new(nr_nodes),
            counters: Counters::default(),
            budget: Budget::default(),
            transfers: Transfers::new(nr_nodes),
            in_flight: InFlight::new(nr_frames),
            leaf_stock: LeafStock::default(),
            owners: OnceLock::new(),
        }
    }

    /// The frames.
    #[inline]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        &self.claims.pool
    }
}
