//! Removal of pages: of a range, past the end of a file, after size changes made outside the cache,
//! and of a file that is torn down.

use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::ledger;
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::{Slot, State};
use crate::index::claim::{Claim, Leaf};
use crate::mapping::record::{FileLock, Mapping};
use crate::supply::alloc::Charges;
use crate::supply::leaves::Leaves;

/// Treatment of pages that are not clean, or that a guard is about to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclean {
    Keep,
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Remover<'m>(pub(crate) &'m Mapping);

impl Remover<'_> {
    /// Removes the cached pages from `first` up to `end`. Pinned pages stay valid for their guards.
    /// Waits for fills in progress, so the caller holds no claim (C3).
    pub(crate) fn remove(self, first: PageNr, end: PageNr, unclean: Unclean) {
        // ORDERING: SeqCst fence; pairs with the one in `read::fill` (store buffering). The caller
        // has changed the file or its size, and now loads slots; a fill has claimed a slot, and
        // then loads the size and reads the file. At least one of them sees the other's change.
        fence(Ordering::SeqCst);
        let end = end.min(self.0.index().capacity());
        let mut page = first;
        while page < end {
            let Some(leaf) = self.0.index().next_leaf(Leaf::of(page)) else {
                break;
            };
            page = page.max(Leaf::first_page(leaf));
            while page < end.min(Leaf::first_page(leaf + 1)) {
                self.remove_page(page, unclean);
                page += 1;
            }
        }
        // Frees the frames of pages that were retired, unless a hazard slot names them now.
        self.0.pool().look_at_announced();
    }

    fn remove_page(self, page: PageNr, unclean: Unclean) {
        while !self.try_remove_page(page, unclean) {
            if let Some(seen) = self.0.index().look(page)
                && seen.slot.is_busy()
            {
                seen.wait_while_busy(self.0.claims());
            }
        }
    }

    /// Returns `false` if another thread has claimed the page, possibly for a whole transfer.
    fn try_remove_page(self, page: PageNr, unclean: Unclean) -> bool {
        let mut backoff = Backoff::new();
        // Repeats if the slot was claimed since the load, or its accessed bit set.
        while let Some(leaf) = self.0.index().leaf(self.0.claims(), page) {
            let position = Leaf::slot_of(page);
            // ORDERING: Acquire, as in `Index::look`.
            let seen = Slot::from_bits(leaf.slot(position).load(Ordering::Acquire));
            match seen.state() {
                State::Empty => {
                    forget_ghost(&leaf, position, seen);
                    return true;
                }
                State::Busy => return false,
                State::Present(_) => {
                    if let Ok(claim) = Claim::try_new(self.0.claims(), leaf, position, seen) {
                        if self.forget_state(page, &claim, unclean) {
                            // The drop of the slot's or the last guard's reference frees the frame.
                            drop(claim.empty());
                        }
                        return true;
                    }
                    backoff.wait();
                }
            }
        }
        true
    }

    /// Makes a claimed page clean. Returns `false` if the page must stay.
    fn forget_state(self, page: PageNr, claim: &Claim<'_>, unclean: Unclean) -> bool {
        let (Some(writes), Some(frame)) = (self.0.writes_if_any(), claim.frame()) else {
            return true;
        };
        let record = self.0.pool().meta(frame);
        let before = PageState::of(record);
        if !before.may_go() && unclean == Unclean::Keep {
            return false;
        }
        self.0.note_state(writes, page, before, PageState::CLEAN);
        PageState::CLEAN.store(record);
        if before.is_locked() {
            // A thread that waits for the page lock must look the page up again.
            self.0.claims().waits.wake(PageState::word(record));
        }
        true
    }

    /// Removes the pages past byte `end`, and notifies writers that wait at the file's quota.
    pub(crate) fn drop_past_end(self, end: u64) {
        let first = end.div_ceil(self.0.page_size() as u64);
        self.remove(first, self.0.index().capacity(), Unclean::Drop);
        self.0.shared.pressure.changed.tell();
    }
}

/// Clears the ghost in an empty slot, since it does not apply to the next page there.
fn forget_ghost(leaf: &Leaf<'_>, position: usize, seen: Slot) {
    if seen.ghost().is_some() {
        // ORDERING: Relaxed; a hint. If the exchange fails, the slot is being filled.
        let _ = leaf.slot(position).compare_exchange(
            seen.bits(),
            seen.without_ghost().bits(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

impl Drop for Mapping {
    /// Frees all frames except those of owned pins ([`OwnedPageGuard`](crate::OwnedPageGuard)).
    /// Waits for evictions; no page is being filled. The last handle has made the file durable.
    fn drop(&mut self) {
        if !self.shared.home.is_here() {
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

/// Adopts the backend's size, and removes the pages that the change invalidates.
pub(crate) fn refresh(mapping: &Mapping, op: Op) -> Result<u64, Error> {
    if mapping.writes_if_any().is_some() {
        // Only this mapping writes the file, and the backend may lack its full size.
        return Ok(mapping.size());
    }
    let _resize = FileLock::of(mapping, &mapping.growth.resize);
    let new = mapping.asked_size(op)?;
    let reach = mapping.reach();
    if new > reach {
        return Err(mapping
            .error(ErrorKind::FileTooLarge, op)
            .with_detail(format!("it has {new} bytes: {}", mapping.limit_of_size())));
    }
    let old = mapping.size();
    if new != old {
        // 1. Readers must not read beyond an end that has moved down.
        if new < old {
            mapping.store_size(new);
        }
        // 2. A fill that starts from here on does not use the old end. For earlier fills, `remove`
        //    waits: its fence pairs with theirs.
        mapping.store_fill_size(new);
        // 3. Remove the pages that the change invalidates.
        let first = old.min(new) >> mapping.page_shift();
        let end = old.max(new).div_ceil(mapping.page_size() as u64);
        Remover(mapping).remove(first, end, Unclean::Drop);
        if new < old {
            mapping.user().tell_cut(new);
        }
        // 4. Publish growth to readers only after the page with the zeros past the old end was
        //    removed. The release of the store publishes step 3.
        mapping.store_size(new);
    }
    Ok(new)
}
