//! The tables of one space: its directory, and how a table becomes its own.
//!
//! Locks. *Unsharing* is held by whoever changes entries of the directory with the structure lock held for reading: one of them
//! at a time. Who holds the structure lock for writing changes them without it.

use std::mem::offset_of;

use pagewell_frame::Order;
use pagewell_frame::refcount::{LockBit, RefScheme};
use pagewell_sync::atomic::AtomicU64;
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
    /// Hits load the fields above, and nothing here is on their lines.
    unsharing: Padded<Mutex<()>>,
}

const _: () = {
    type T = PageTables<LockBit>;
    let lock = offset_of!(T, unsharing);
    assert!(is_apart::<T>(
        offset_of!(T, directory),
        size_of::<Directory>(),
        lock
    ));
    assert!(is_apart::<T>(
        offset_of!(T, view),
        size_of::<PoolView<LockBit>>(),
        lock
    ));
};

impl<S: RefScheme> PageTables<S> {
    pub(crate) fn new(directory: Directory, view: PoolView<S>) -> Self {
        Self {
            directory,
            view,
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
        Directory::set(word, own);
        if own.table() != pmd.table()
            && let Some(old) = pmd.table()
        {
            tables.drop_share(old);
        }
        Ok(own)
    }
}
