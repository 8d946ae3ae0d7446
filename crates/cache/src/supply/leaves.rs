//! Taking leaves into use: the frame for a leaf's record, and the charge of its part of the root.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{Order, UniqueFrame};

use crate::base::page::PageNr;
use crate::index::file_index::Index;
use crate::index::leaf::Leaf;
use crate::supply::alloc::Allocator;
use crate::supply::charge::Charges;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;

/// Takes leaves into use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<'s, S: RefScheme> Leaves<'s, S> {
    /// Gets hold of the leaf of `page` in the index of file number `owner`, and takes it into use if it is not.
    ///
    /// # Errors
    ///
    /// When no frame can be had for it.
    pub(crate) fn leaf_or_new(
        self,
        index: &Index<S>,
        owner: u64,
        page: PageNr,
    ) -> Result<Leaf<'s, S>, OutOfFrames> {
        let claims = &self.0.claims;
        let leaf = Leaf::<S>::of(page);
        // A round is repeated when somebody else has taken the leaf into use since it was looked for.
        loop {
            if let Some(found) = index.leaf_nr(claims, leaf) {
                return Ok(found);
            }
            self.charge(index, leaf)?;
            let fresh = self.alloc_frame()?;
            if let Ok(made) = index.install_leaf(claims, owner, leaf, fresh) {
                return Ok(made);
            }
        }
    }

    /// Charges the part of the root that `leaf`'s entry is in, if that was not done before.
    fn charge(self, index: &Index<S>, leaf: usize) -> Result<(), OutOfFrames> {
        if index.is_charged(leaf) {
            return Ok(());
        }
        let charges = Charges(self.0);
        charges.charge(index.charge_bytes(leaf))?;
        if index.note_charged(leaf) {
            // Someone else charged it meanwhile.
            charges.uncharge(index.charge_bytes(leaf));
        }
        Ok(())
    }

    /// Takes all charges of an index back, which must be empty, and not be used any more.
    pub(crate) fn uncharge(self, index: &Index<S>) {
        let bytes = index.charged_bytes();
        if bytes != 0 {
            Charges(self.0).uncharge(bytes);
        }
    }

    /// A frame whose record is to be a leaf's, and whose memory the leaf's slots use up elsewhere.
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
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pagewell_frame::refcount::LockBit;
    use pagewell_frame::{FramePool, PoolConfig};

    fn supply(nr_frames: usize) -> Supply<LockBit> {
        Supply::new(FramePool::new(&PoolConfig::new(nr_frames)).unwrap())
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
