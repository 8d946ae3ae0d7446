//! Allocation of a free block, or of one that reclaim frees.

use pagewell_frame::{AllocRequest, Order, Place, UniqueFrame};

use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;
use crate::supply::reclaim::batch::Batches;
use crate::supply::reclaim::nodes::{alloc_free, simplest};
use crate::supply::reclaim::reclaimer::Reclaimer;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocator<'s>(pub(crate) &'s Supply);

impl<'s> Allocator<'s> {
    /// Allocates a block of `order`, and evicts pages for it if necessary. May wait for fills in
    /// flight. The caller may hold a claim.
    pub(crate) fn alloc(self, order: Order) -> Result<UniqueFrame<'s>, OutOfFrames> {
        // A batch of pages is evicted before free frames are taken from the whole pool: the latter
        // drains other thread caches, which stops their owners.
        let found = self.alloc_or_evict_batch(order);
        match found.or_else(|| self.0.pool().alloc(order)) {
            Some(unique) => Ok(unique),
            None => Reclaimer(self.0).reclaim(order, Place::Anywhere),
        }
    }

    /// Allocates a block that is free locally, or from one batch of evictions (none under CLOCK).
    #[inline]
    fn alloc_or_evict_batch(self, order: Order) -> Option<UniqueFrame<'s>> {
        self.0.queues.as_ref()?;
        self.0
            .pool()
            .alloc_near(order)
            .or_else(|| Batches(self.0).evict_for(order))
    }

    /// As [`alloc`](Self::alloc), but waits for nothing: returns `None` if one batch of evicted
    /// pages, or under CLOCK one pass that spares recently accessed pages, yields no block.
    pub(crate) fn try_alloc(self, order: Order) -> Option<UniqueFrame<'s>> {
        if self.0.queues.is_some() {
            return self.alloc_or_evict_batch(order);
        }
        self.0
            .pool()
            .alloc(order)
            .or_else(|| Reclaimer(self.0).find_unmarked(order))
    }

    /// As [`alloc`](Self::alloc), but at `place`, whose node must be one of the pool. If `place`
    /// excludes or prefers nodes, evicts in the order of the clock hand. For a single frame on only
    /// one node, also evicts a few more pages, for the next requests.
    pub(crate) fn alloc_at(
        self,
        order: Order,
        place: Place,
    ) -> Result<UniqueFrame<'s>, OutOfFrames> {
        let place = simplest(self.0.pool(), place);
        if place == Place::Anywhere {
            return self.alloc(order);
        }
        if let Some(free) = alloc_free(self.0.pool(), order, place) {
            return Ok(free);
        }
        let block = Reclaimer(self.0).reclaim(order, place)?;
        if let (Place::Only(node), Order::ZERO) = (place, order) {
            Reclaimer(self.0).evict_more(node);
        }
        Ok(block)
    }

    /// Allocates a free block on `node`, without eviction.
    pub(crate) fn alloc_on(self, order: Order, node: usize) -> Option<UniqueFrame<'s>> {
        let request = AllocRequest {
            order,
            place: Place::Only(node),
        };
        self.0.pool().alloc_by(&request).ok()
    }
}
