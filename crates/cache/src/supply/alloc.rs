//! Allocation of a free block, or of one that reclaim frees ([`Allocator`]), and charges to the
//! [budget](super::budget), for which frames are allocated and withheld ([`Charges`]).

use pagewell_frame::{AllocRequest, Order, Place, UniqueFrame};

use crate::supply::census::OutOfFrames;
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

/// Error of an operation that could only succeed by waiting or by evicting recently accessed pages.
#[derive(Debug)]
pub(crate) struct WouldWait;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Charges<'s>(pub(crate) &'s Supply);

impl<'s> Charges<'s> {
    pub(crate) fn charge(self, bytes: usize) -> Result<(), OutOfFrames> {
        self.charge_by(bytes, || Allocator(self.0).alloc(Order::ZERO))
    }

    /// As [`charge`](Self::charge), by [`Allocator::try_alloc`].
    pub(crate) fn try_charge(self, bytes: usize) -> Result<(), WouldWait> {
        let alloc = || Allocator(self.0).try_alloc(Order::ZERO);
        self.charge_by(bytes, || alloc().ok_or(WouldWait))
    }

    /// Charges nothing after an error of `alloc`.
    fn charge_by<E>(
        self,
        bytes: usize,
        alloc: impl Fn() -> Result<UniqueFrame<'s>, E>,
    ) -> Result<(), E> {
        // Concurrent calls must not use each other's frames. Surplus frames are freed after the
        // budget's lock is released.
        let mut spare: Vec<UniqueFrame<'s>> = Vec::new();
        while !self.0.budget.try_charge(bytes, &mut spare) {
            let unique = alloc()?;
            unique.discard();
            spare.push(unique);
        }
        Ok(())
    }

    pub(crate) fn uncharge(self, bytes: usize) {
        if bytes != 0 {
            self.0.budget.uncharge(&self.0.claims, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_rounded_up_together_and_come_back() {
        let supply = Supply::of_frames(16);
        Charges(&supply).charge(100).unwrap();
        Charges(&supply).charge(100).unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).charge(4096).unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 14);
        Charges(&supply).uncharge(100);
        assert_eq!(supply.pool().stats().nr_available(), 14);
        Charges(&supply).uncharge(100);
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).uncharge(4096);
        assert_eq!(supply.pool().stats().nr_available(), 16);
        supply.pool().verify().unwrap();
    }

    #[test]
    fn a_charge_that_cannot_be_met_changes_nothing() {
        let supply = Supply::of_frames(16);
        Charges(&supply).charge(4096).unwrap();
        assert!(Charges(&supply).charge(16 * 4096).is_err());
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).uncharge(4096);
        assert_eq!(supply.pool().stats().nr_available(), 16);
    }

    /// Regression test: eight files opened concurrently each withheld a frame where one sufficed.
    #[test]
    fn charges_at_the_same_moment_withhold_no_more_than_one_after_the_other() {
        const THREADS: usize = 8;
        let supply = Supply::of_frames(64);
        let barrier = std::sync::Barrier::new(THREADS);
        for _ in 0..50 {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        barrier.wait();
                        Charges(&supply).charge(100).unwrap();
                    });
                }
            });
            assert_eq!(supply.pool().stats().nr_available(), 63);
            Charges(&supply).uncharge(100 * THREADS);
            assert_eq!(supply.pool().stats().nr_available(), 64);
        }
        supply.pool().verify().unwrap();
    }
}
