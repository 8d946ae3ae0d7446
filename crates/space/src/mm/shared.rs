use std::fmt;
use std::sync::Arc;

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;

use crate::pages::record::Pages;
use crate::supply::frames::Supply;
use crate::supply::source::FrameSource;
use crate::supply::writers::Writers;
use crate::tables::table::Tables;

pub(crate) struct Shared<S: RefScheme> {
    pub(crate) supply: Supply<S>,
    pub(crate) writers: Writers,
}

impl<S: RefScheme> Shared<S> {
    pub(crate) fn new(source: Arc<dyn FrameSource<S>>) -> Self {
        Self {
            supply: Supply::new(source),
            writers: Writers::new(),
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

    /// Returns a number that no other area or space of the pool has. A file identifies areas by it,
    /// even of different sources ([`crate::Spaces::from_source`]).
    pub(crate) fn next_id(&self) -> u64 {
        self.pool().next_number()
    }
}

impl<S: RefScheme> fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("pool", self.pool())
            .finish_non_exhaustive()
    }
}
