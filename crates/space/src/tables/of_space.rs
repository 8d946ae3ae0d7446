//! Tables of one space: its directory, and how a table becomes exclusive.
//!
//! D1: when a table leaves the directory, with or without a replacement, the *sequence counter*
//! (`edition`) is incremented after the entry was changed and before the space's share of the table
//! is dropped ([`PageTables::set`]). If the counter is the same before and after a thread loads
//! entries of the directory, the space has dropped no share of a table that these entries name
//! ([`crate::access::optimistic`]). The counter does not repeat.

use std::mem::offset_of;

use pagewell_frame::Order;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::shard::{Padded, is_apart};
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::error::ErrorKind;
use crate::supply::frames::Supply;
use crate::supply::view::{self, PoolView};
use crate::words::pmd::{Directory, Pmd};

#[derive(Debug)]
pub(crate) struct PageTables {
    pub(crate) directory: Directory,
    /// Copy of the supply's view. Owners of this value keep the supply alive.
    pub(crate) view: PoolView,
    /// Sequence counter (D1), on its own cache lines: hits load it, table exchanges write it.
    edition: Padded<AtomicU64>,
    /// Unsharing lock, not on the cache lines of the fields above, which hits load.
    unsharing: Padded<Mutex<()>>,
}

const _: () = {
    type T = PageTables;
    let (lock, edition) = (offset_of!(T, unsharing), offset_of!(T, edition));
    let (directory, view) = (offset_of!(T, directory), offset_of!(T, view));
    let (of_directory, of_view) = (size_of::<Directory>(), size_of::<PoolView>());
    assert!(is_apart::<T>(directory, of_directory, lock));
    assert!(is_apart::<T>(directory, of_directory, edition));
    assert!(is_apart::<T>(view, of_view, lock));
    assert!(is_apart::<T>(view, of_view, edition));
};

impl PageTables {
    pub(crate) fn new(directory: Directory, view: PoolView) -> Self {
        Self {
            directory,
            view,
            edition: Padded(AtomicU64::new(0)),
            unsharing: Padded(Mutex::new(())),
        }
    }

    #[inline(always)]
    pub(crate) fn pmd_word(&self, addr: u64) -> Option<&AtomicU64> {
        self.directory.word(addr)
    }

    /// Returns the directory's word for `addr`, which must be an address of the space.
    pub(crate) fn word_of(&self, addr: u64) -> &AtomicU64 {
        &self.directory.words(&(addr..addr + 1))[0]
    }

    /// Returns entry `index` of the table that `pmd` names. If the table was freed, any word.
    #[inline(always)]
    pub(crate) fn entry(&self, pmd: Pmd, index: usize) -> &AtomicU64 {
        view::entry(&self.view, pmd.frame(), index)
    }

    #[inline(always)]
    pub(crate) fn edition(&self) -> u64 {
        // ORDERING: Acquire; pairs with the release in `set`, and sees the change before it.
        self.edition.load(Ordering::Acquire)
    }

    /// Returns `true` if no table has left the directory since the counter was `edition`. The
    /// caller must execute an acquire fence between its reads and this call.
    #[inline(always)]
    pub(crate) fn is_edition(&self, edition: u64) -> bool {
        // ORDERING: Relaxed; ordered by the caller's fence.
        self.edition.load(Ordering::Relaxed) == edition
    }

    /// Changes an entry (D1), under the unsharing lock, or the structure lock held for writing.
    pub(crate) fn set(&self, word: &AtomicU64, pmd: Pmd) {
        let before = Directory::look(word);
        Directory::set(word, pmd);
        if before.is_present() && before.table() != pmd.table() {
            // ORDERING: Release; publishes the change of the entry. The caller drops this space's
            // share later, and another space changes the table only after that.
            self.edition.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn lock_unsharing(&self) -> MutexGuard<'_, ()> {
        lock(&self.unsharing)
    }

    /// Ensures that the table for `addr` is exclusive, for pages of `order`, and returns its
    /// directory entry. The caller holds the structure lock, so that the table stays exclusive.
    pub(crate) fn own(&self, supply: &Supply, order: Order, addr: u64) -> Result<Pmd, ErrorKind> {
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
                let table = supply.make_table().ok_or(ErrorKind::OutOfFrames)?;
                pmd.with_table(table, order)
            }
            Some(table) if supply.is_only_share(table) => pmd.taken_over(),
            Some(table) => pmd.with_table(supply.copy_table(table)?, order),
        };
        self.set(word, own);
        if own.table() != pmd.table()
            && let Some(old) = pmd.table()
        {
            supply.drop_share(old);
        }
        Ok(own)
    }
}
