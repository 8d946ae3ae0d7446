//! Creation and removal of leaves, with the budget charges for the memory that neighbours share.
//!
//! If several threads need one leaf, one of them creates it. The others wait until it is installed
//! or its creation has failed; threads that must not wait give up. So only one thread evicts pages
//! for the leaf. It sleeps only in allocations of frames (`supply::reclaim`).

use pagewell_frame::{Order, UniqueFrame};
use pagewell_sync::scaled;

use crate::base::page::PageNr;
use crate::index::claim::Leaf;
use crate::index::extents::Missing;
use crate::index::file_index::Index;
use crate::supply::alloc::{Allocator, Charges, WouldWait};
use crate::supply::census::OutOfFrames;
use crate::supply::parts::Supply;

/// Number of frames that a fill reserves for a leaf: one for its metadata, and two to be withheld
/// ([`super::budget`]) for the memory that it shares with its neighbours. This memory may need a
/// third frame, which is not reserved; without it, no leaf is created. (Models have tiny pools.)
pub(crate) const LEAF_FRAMES: usize = scaled(3, 1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves<'s>(pub(crate) &'s Supply);

impl<'s> Leaves<'s> {
    /// Returns a handle of the leaf of `page` in the index of file number `owner`. If necessary,
    /// creates the leaf: acquires a leaf-creation lock and allocates. The caller holds no claim.
    pub(crate) fn leaf_or_new(
        self,
        index: &Index,
        owner: u64,
        page: PageNr,
    ) -> Result<Leaf<'s>, OutOfFrames> {
        let claims = &self.0.claims;
        let leaf = Leaf::of(page);
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Ok(found);
        }
        let _making = index.lock_to_make(leaf);
        // The leaf may exist by now. If it is being removed, `leaf_nr` waits for that.
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Ok(found);
        }
        self.enter(index, leaf, Charges::charge)?;
        let fresh = self
            .frame(|allocator| allocator.alloc(Order::ZERO))
            .inspect_err(|_| self.leave(index, leaf))?;
        Ok(index.install_leaf(claims, owner, leaf, fresh))
    }

    /// As [`leaf_or_new`](Self::leaf_or_new), or `None` if another thread holds the leaf-creation
    /// lock, or if frames are not available without waiting. The caller may hold claims.
    pub(crate) fn try_leaf_or_new(
        self,
        index: &Index,
        owner: u64,
        page: PageNr,
    ) -> Option<Leaf<'s>> {
        let claims = &self.0.claims;
        let leaf = Leaf::of(page);
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Some(found);
        }
        let _making = index.try_lock_to_make(leaf)?;
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Some(found);
        }
        let alloc = |allocator: Allocator<'s>| allocator.try_alloc(Order::ZERO).ok_or(WouldWait);
        let fresh = self.frame(alloc).ok()?;
        self.enter(index, leaf, Charges::try_charge).ok()?;
        Some(index.install_leaf(claims, owner, leaf, fresh))
    }

    /// Removes leaf number `leaf` if all its slots are empty and `held` is its only handle, and
    /// returns its frame. Otherwise returns `held`. Waits for nothing. The caller may hold claims.
    pub(crate) fn take<'h>(
        self,
        index: &Index,
        leaf: usize,
        held: Leaf<'h>,
    ) -> Result<UniqueFrame<'h>, Leaf<'h>> {
        let unique = index.take_empty_leaf(&self.0.claims, leaf, held)?;
        self.leave(index, leaf);
        Ok(unique)
    }

    /// Charges by `charge` the memory of a new leaf besides its slots, unless a neighbour was
    /// charged.
    fn enter<E>(
        self,
        index: &Index,
        leaf: usize,
        charge: impl Fn(Charges<'s>, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let charges = Charges(self.0);
        let mut paid = 0;
        // More than two iterations are needed only if a neighbour has left since the last check.
        while let Err(Missing(more)) = index
            .enter(leaf, paid)
            .map(|surplus| charges.uncharge(surplus))
        {
            charge(charges, more).inspect_err(|_| charges.uncharge(paid))?;
            paid += more;
        }
        Ok(())
    }

    fn leave(self, index: &Index, leaf: usize) {
        Charges(self.0).uncharge(index.leave(leaf));
    }

    /// Allocates by `alloc` a frame for a leaf's metadata, unless one is in stock. Discards its
    /// memory, since the slots use as much.
    fn frame<E>(
        self,
        alloc: impl FnOnce(Allocator<'s>) -> Result<UniqueFrame<'s>, E>,
    ) -> Result<UniqueFrame<'s>, E> {
        let (claims, stock) = (&self.0.claims, &self.0.leaf_stock);
        if let Some(frame) = stock.take(claims) {
            return Ok(frame);
        }
        let first = alloc(Allocator(self.0))?;
        first.discard();
        stock.stock_up(claims);
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_pool_keeps_neighbours_in_stock_and_gives_them_back() {
        let supply = Supply::of_frames(16 * 1024);
        let frames: Vec<_> = (0..16)
            .map(|_| {
                Leaves(&supply)
                    .frame(|allocator| allocator.alloc(Order::ZERO))
                    .unwrap()
            })
            .collect();
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024 - 16);
        for pair in frames.windows(2) {
            assert_eq!(pair[1].frame().get(), pair[0].frame().get() + 1);
        }
        let next = Leaves(&supply)
            .frame(|allocator| allocator.alloc(Order::ZERO))
            .unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024 - 32);
        drop((frames, next));
        supply.leaf_stock.drain(&supply.claims);
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024);
        supply.pool().verify().unwrap();
    }

    #[test]
    fn a_small_pool_keeps_none() {
        let supply = Supply::of_frames(64);
        let frame = Leaves(&supply)
            .frame(|allocator| allocator.alloc(Order::ZERO))
            .unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 63);
        drop(frame);
        assert_eq!(supply.pool().stats().nr_available(), 64);
    }
}
