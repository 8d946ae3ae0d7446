//! The tables of one space: its directory, and how a table becomes its own.
//!
//! Locks. *Unsharing* is held by whoever changes entries of the directory with the structure lock held for reading: one of them
//! at a time. Who holds the structure lock for writing changes them without it.
//!
//! D1: a table that leaves the directory, for another one or for none, moves the directory's *edition*, after the entry was
//! changed and before the space's share of the table is dropped ([`PageTables::set`]). So who finds the edition as it was before
//! it looked at an entry knows that no table which it met has been let go of meanwhile: one comparison for as many tables as it
//! likes, where a second look at each entry would take its address and what it was
//! ([`crate::access::optimistic`] has the argument). The edition has 64 bits and is moved by one, so it does not repeat.

use std::mem::offset_of;

use pagewell_frame::Order;
use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::{Padded, is_apart};
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::error::ErrorKind;
use crate::supply::view::{self, PoolView};
use crate::tables::table::Tables;
use crate::words::directory::Directory;
use crate::words::pmd::Pmd;

/// The directory of a space, and what a hit needs to go on from there.
#[derive(Debug)]
pub(crate) struct PageTables<S: RefScheme> {
    /// For each 2 MiB of addresses, the table that has their entries.
    directory: Directory,
    /// A copy of the one in the supply, beside the directory; whoever has this keeps the supply.
    view: PoolView<S>,
    /// How many tables have left the directory (D1). Hits load it; it has lines of its own, as it is written where a table is
    /// exchanged.
    edition: Padded<AtomicU64>,
    /// Hits load the fields above, and nothing here is on their lines.
    unsharing: Padded<Mutex<()>>,
}

const _: () = {
    type T = PageTables<LockBit>;
    let (lock, edition) = (offset_of!(T, unsharing), offset_of!(T, edition));
    let (directory, view) = (offset_of!(T, directory), offset_of!(T, view));
    let (of_directory, of_view) = (size_of::<Directory>(), size_of::<PoolView<LockBit>>());
    assert!(is_apart::<T>(directory, of_directory, lock));
    assert!(is_apart::<T>(directory, of_directory, edition));
    assert!(is_apart::<T>(view, of_view, lock));
    assert!(is_apart::<T>(view, of_view, edition));
};

impl<S: RefScheme> PageTables<S> {
    pub(crate) fn new(directory: Directory, view: PoolView<S>) -> Self {
        Self {
            directory,
            view,
            edition: Padded(AtomicU64::new(0)),
            unsharing: Padded(Mutex::new(())),
        }
    }

    #[inline(always)]
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> &PoolView<S> {
        &self.view
    }

    /// The directory's entry for `addr`; none beyond the addresses of the space.
    #[inline(always)]
    pub(crate) fn pmd_word(&self, addr: u64) -> Option<&AtomicU64> {
        self.directory.word(addr)
    }

    /// The directory's entry for `addr`, which is one of the space.
    pub(crate) fn word_of(&self, addr: u64) -> &AtomicU64 {
        &self.directory.words(&(addr..addr + 1))[0]
    }

    /// The entry `index` of the table that `pmd` names; any number, if that was freed meanwhile.
    #[inline(always)]
    pub(crate) fn entry(&self, pmd: Pmd, index: usize) -> &AtomicU64 {
        view::entry(&self.view, pmd.frame(), index)
    }

    /// The directory's edition now, to be compared with [`is_edition`](Self::is_edition) later.
    #[inline(always)]
    pub(crate) fn edition(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `set`: who sees an edition sees the entries that it was moved for.
        self.edition.load(Ordering::Acquire)
    }

    /// Whether no table has left the directory since it had this edition. What the answer is about was read before, with an
    /// acquire fence after it.
    #[inline(always)]
    pub(crate) fn is_edition(&self, edition: u64) -> bool {
        // ORDERING: Relaxed; ordered by the caller's fence.
        self.edition.load(Ordering::Relaxed) == edition
    }

    /// Changes an entry of the directory, with the lock held that it takes (D1).
    pub(crate) fn set(&self, word: &AtomicU64, pmd: Pmd) {
        let before = Directory::look(word);
        Directory::set(word, pmd);
        if before.is_present() && before.table() != pmd.table() {
            // ORDERING: Release; publishes the change of the entry to whoever loads the new edition. What was done to the table
            // by others later comes after the drop of this space's share, and that after this.
            self.edition.fetch_add(1, Ordering::Release);
        }
    }

    /// Keeps others from exchanging tables of the space.
    pub(crate) fn lock_unsharing(&self) -> MutexGuard<'_, ()> {
        lock(&self.unsharing)
    }

    /// The directory's entry for `addr` with a table that is this space's alone, for pages of `order`. The structure lock
    /// is held, for reading at the least; so the table stays in the directory, and the space's alone.
    pub(crate) fn own(
        &self,
        tables: Tables<'_, S>,
        order: Order,
        addr: u64,
    ) -> Result<Pmd, ErrorKind> {
        let word = self.pmd_word(addr).ok_or(ErrorKind::InvalidRange)?;
        let pmd = Directory::look(word);
        if pmd.is_exclusive() {
            return Ok(pmd);
        }
        let _unsharing = self.lock_unsharing();
        let pmd = Directory::look(word);
        if pmd.is_exclusive() {
            return Ok(pmd);
        }
        let own = match pmd.table() {
            None => {
                let table = tables.make().ok_or(ErrorKind::OutOfFrames)?;
                pmd.with_table(table, order)
            }
            Some(table) if tables.is_only_share(table) => pmd.taken_over(),
            Some(table) => pmd.with_table(tables.copy(table)?, order),
        };
        self.set(word, own);
        if own.table() != pmd.table()
            && let Some(old) = pmd.table()
        {
            tables.drop_share(old);
        }
        Ok(own)
    }
}
