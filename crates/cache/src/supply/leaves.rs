//! Taking leaves into use, and out of use: the frame for a leaf's record, and the charge of what it shares with its neighbours.
//!
//! Of many threads that want one leaf, one makes it, and the others wait for it: so one finds memory, and evicts. A maker waits for
//! what every request for a frame waits for (`reclaim`), and for nothing else.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{Order, UniqueFrame};

use crate::base::page::PageNr;
use crate::index::extents::Missing;
use crate::index::file_index::Index;
use crate::index::leaf::Leaf;
use crate::supply::alloc::Allocator;
use crate::supply::charge::Charges;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;

/// A fill may have to make a leaf: a frame for its record, and at most two that are withheld for what it shares with its
/// neighbours. (In a model, where pools are tiny, one that is not withheld any more is found at once.)
pub(crate) const LEAF_FRAMES: usize = if cfg!(loom) { 1 } else { 3 };

/// Takes leaves into use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<'s, S: RefScheme> Leaves<'s, S> {
    /// Gets hold of the leaf of `page` in the index of file number `owner`, and takes the leaf into use
    /// if it is not in use.
    ///
    /// # Errors
    ///
    /// When there is no frame for it.
    pub(crate) fn leaf_or_new(
        self,
        index: &Index<S>,
        owner: u64,
        page: PageNr,
    ) -> Result<Leaf<'s, S>, OutOfFrames> {
        let claims = &self.0.claims;
        let leaf = Leaf::<S>::of(page);
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Ok(found);
        }
        let _making = index.lock_to_make(leaf);
        // Another thread may have made it meanwhile. If it is just being taken out, this waits until it is.
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Ok(found);
        }
        self.enter(index, leaf)?;
        match self.alloc_frame() {
            Ok(fresh) => Ok(index.install_leaf(claims, owner, leaf, fresh)),
            Err(reason) => {
                self.leave(index, leaf);
                Err(reason)
            }
        }
    }

    /// As [`leaf_or_new`](Self::leaf_or_new), if nothing has to be waited for.
    #[cfg(not(loom))]
    pub(crate) fn try_leaf_or_new(
        self,
        index: &Index<S>,
        owner: u64,
        page: PageNr,
    ) -> Option<Leaf<'s, S>> {
        let claims = &self.0.claims;
        let leaf = Leaf::<S>::of(page);
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Some(found);
        }
        let _making = index.try_lock_to_make(leaf)?;
        if let Some(found) = index.leaf_nr(claims, leaf) {
            return Some(found);
        }
        let fresh = self.try_alloc_frame()?;
        if !self.try_enter(index, leaf) {
            return None;
        }
        Some(index.install_leaf(claims, owner, leaf, fresh))
    }

    /// Takes leaf number `leaf` out of use if all its slots are empty, and `held`, the caller's handle, is the only one. The
    /// frame then belongs to the caller. Nothing is waited for; claims may be held.
    ///
    /// # Errors
    ///
    /// The handle, when the leaf is in use.
    pub(crate) fn take<'h>(
        self,
        index: &Index<S>,
        leaf: usize,
        held: Leaf<'h, S>,
    ) -> Result<UniqueFrame<'h, S>, Leaf<'h, S>> {
        let unique = index.take_empty_leaf(&self.0.claims, leaf, held)?;
        self.leave(index, leaf);
        Ok(unique)
    }

    /// Charges what `leaf`, which is about to be made, needs besides its slots, unless a neighbour has it already.
    fn enter(self, index: &Index<S>, leaf: usize) -> Result<(), OutOfFrames> {
        let charges = Charges(self.0);
        let mut paid = 0;
        // A round is repeated when a neighbour has left since this thread looked: at most as often as that happens.
        loop {
            match index.enter(leaf, paid) {
                Ok(surplus) => {
                    charges.uncharge(surplus);
                    return Ok(());
                }
                Err(Missing(more)) => {
                    if let Err(reason) = charges.charge(more) {
                        charges.uncharge(paid);
                        return Err(reason);
                    }
                    paid += more;
                }
            }
        }
    }

    /// As [`enter`](Self::enter), if there are frames at hand; whether it is entered.
    #[cfg(not(loom))]
    fn try_enter(self, index: &Index<S>, leaf: usize) -> bool {
        let charges = Charges(self.0);
        let mut paid = 0;
        // As in `enter`.
        loop {
            match index.enter(leaf, paid) {
                Ok(surplus) => {
                    charges.uncharge(surplus);
                    return true;
                }
                Err(Missing(more)) => {
                    if !charges.try_charge(more) {
                        charges.uncharge(paid);
                        return false;
                    }
                    paid += more;
                }
            }
        }
    }

    fn leave(self, index: &Index<S>, leaf: usize) {
        Charges(self.0).uncharge(index.leave(leaf));
    }

    /// A frame for a leaf's record; the leaf's slots use as much memory elsewhere.
    fn alloc_frame(self) -> Result<UniqueFrame<'s, S>, OutOfFrames> {
        let (claims, stock) = (&self.0.claims, &self.0.leaf_stock);
        if let Some(frame) = stock.take(claims) {
            return Ok(frame);
        }
        let first = Allocator(self.0).alloc(Order::ZERO)?;
        first.discard();
        stock.stock_up(claims);
        Ok(first)
    }

    /// As [`alloc_frame`](Self::alloc_frame), if there is one at hand.
    #[cfg(not(loom))]
    fn try_alloc_frame(self) -> Option<UniqueFrame<'s, S>> {
        let (claims, stock) = (&self.0.claims, &self.0.leaf_stock);
        if let Some(frame) = stock.take(claims) {
            return Some(frame);
        }
        let first = Allocator(self.0).try_alloc(Order::ZERO)?;
        first.discard();
        stock.stock_up(claims);
        Some(first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::supply::policy::Eviction;
    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FramePool, PoolConfig};
    use pagewell_sync::parking::WaitTable;

    fn supply(nr_frames: usize) -> Supply<LockBit> {
        Supply::new(
            FramePool::new(&PoolConfig::new(nr_frames)).unwrap(),
            Eviction::default(),
            WaitTable::new(),
        )
    }

    #[test]
    fn a_large_pool_keeps_neighbours_in_stock_and_gives_them_back() {
        let supply = supply(16 * 1024);
        let frames: Vec<_> = (0..16)
            .map(|_| Leaves(&supply).alloc_frame().unwrap())
            .collect();
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024 - 16);
        for pair in frames.windows(2) {
            assert_eq!(pair[1].frame().get(), pair[0].frame().get() + 1);
        }
        let next = Leaves(&supply).alloc_frame().unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024 - 32);
        drop((frames, next));
        supply.leaf_stock.drain(&supply.claims);
        assert_eq!(supply.pool().stats().nr_available(), 16 * 1024);
        supply.pool().verify().unwrap();
    }

    #[test]
    fn a_small_pool_keeps_none() {
        let supply = supply(64);
        let frame = Leaves(&supply).alloc_frame().unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 63);
        drop(frame);
        assert_eq!(supply.pool().stats().nr_available(), 64);
    }
}
