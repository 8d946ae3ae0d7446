use pagewell_sync::ledger;
use pagewell_sync::thread::Backoff;

use crate::index::leaf::Leaf;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::supply::charge::Charges;
use crate::supply::leaves::Leaves;

impl Drop for Mapping {
    /// Frees all frames except those of owned pins ([`OwnedPageGuard`](crate::OwnedPageGuard)).
    /// Waits for evictions; no page is being filled. The last handle has made the file durable.
    fn drop(&mut self) {
        if !self.shared().home.is_here() {
            // In a fork, changes by threads of the parent will never be completed.
            return;
        }
        if !std::thread::panicking() {
            // The backend, the callback and the codec are the program's, and are dropped next.
            drop(ledger::enter("the drop of a file", &[]));
        }
        let mut from = 0;
        while let Some(leaf) = self.index().next_leaf(from) {
            from = leaf + 1;
            let pages = Leaf::first_page(leaf)..Leaf::first_page(leaf + 1);
            Remover(self).remove(pages.start, pages.end, Unclean::Drop);
            let mut backoff = Backoff::new();
            // A concurrent eviction may hold the leaf for a few steps, or remove it first.
            while let Some(held) = self.index().leaf_nr(self.claims(), leaf) {
                match Leaves(self.supply()).take(self.index(), leaf, held) {
                    Ok(unique) => drop(unique),
                    Err(held) => drop(held),
                }
                backoff.wait();
            }
        }
        let supply = self.supply();
        supply.leaf_stock.drain(&supply.claims);
        Charges(supply).uncharge(self.charged);
    }
}
