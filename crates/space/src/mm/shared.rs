//! What the spaces of one pool share.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::pages::record::Pages;
use crate::supply::frames::Supply;
use crate::supply::source::FrameSource;
use crate::supply::writers::Writers;
use crate::tables::table::Tables;

/// What the spaces of one pool share. Each room is handed the part that it needs.
pub(crate) struct Shared<S: RefScheme> {
    pub(crate) supply: Supply<S>,
    pub(crate) writers: Writers,
    next_id: AtomicU64,
}

impl<S: RefScheme> Shared<S> {
    pub(crate) fn new(source: Arc<dyn FrameSource<S>>) -> Self {
        Self {
            supply: Supply::new(source),
            writers: Writers::new(),
            next_id: AtomicU64::new(1),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool<S> {
        self.supply.pool()
    }

    #[inline]
    pub(crate) fn pages(&self) -> Pages<'_, S> {
        Pages::of(self.pool())
    }

    #[inline]
    pub(crate) fn tables(&self) -> Tables<'_, S> {
        Tables::of(&self.supply)
    }

    /// A number that nothing else has.
    pub(crate) fn next_id(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl<S: RefScheme> fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("pool", self.pool())
            .finish_non_exhaustive()
    }
}
