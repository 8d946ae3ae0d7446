use std::fmt;
use std::sync::Arc;

use pagewell_frame::{FramePool, Order, Place, UniqueFrame};

use crate::motion::compact::Compactor;
use crate::pages::record::Pages;
use crate::supply::frames::Supply;
use crate::supply::source::FrameSource;
use crate::supply::writers::Writers;
use crate::tables::table::Tables;

pub(crate) struct Shared {
    pub(crate) supply: Supply,
    pub(crate) writers: Writers,
}

impl Shared {
    pub(crate) fn new(source: Arc<dyn FrameSource>) -> Self {
        Self {
            supply: Supply::new(source),
            writers: Writers::new(),
        }
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        self.supply.pool()
    }

    /// Allocates a block, if necessary by evictions, and for several frames by moves of pages.
    pub(crate) fn alloc(&self, order: Order, place: Place) -> Option<UniqueFrame<'_>> {
        let free = self.supply.alloc(order, place);
        if free.is_some() || order == Order::ZERO {
            return free;
        }
        Compactor::of(&self.supply).compact(order, place)
    }

    #[inline]
    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages::of(self.pool())
    }

    #[inline]
    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables::of(&self.supply)
    }

    /// Returns a number that no other area or space of the pool has. A file identifies areas by it,
    /// even of different sources ([`crate::Spaces::from_source`]).
    pub(crate) fn next_id(&self) -> u64 {
        self.pool().next_number()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("pool", self.pool())
            .finish_non_exhaustive()
    }
}
