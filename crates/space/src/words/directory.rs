//! Directory of a space: an array with a word for each 2 MiB of its addresses, reserved as a whole.
//! It uses memory only where tables exist. [`crate::areas::noted`] has such an array, too.
//!
//! Links keep the directory, empty, after the end of its space (F2 of [`crate::pages::links`]).

use std::ops::{Deref, Range};

use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::region::Region;

use crate::words::geometry::{TABLE_BYTES, TABLE_SHIFT, table_of};
use crate::words::pmd::Pmd;

/// A clone is the same directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Region);

impl Deref for Directory {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl Directory {
    /// Reserves `len` words of zeros. Returns `None` if `len` is 0 or no addresses are left.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let words = Region::reserve(len).ok()?;
        (len > 0).then_some(Self(words))
    }

    #[inline(always)]
    pub(crate) fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.get((addr >> TABLE_SHIFT) as usize)
    }

    /// Returns the words of the tables that span `range`, which must be within the space.
    pub(crate) fn words(&self, range: &Range<u64>) -> &[AtomicU64] {
        let first = table_of(range.start) as usize;
        let end = range.end.div_ceil(TABLE_BYTES) as usize;
        &self[first..end]
    }

    #[inline(always)]
    pub(crate) fn look(word: &AtomicU64) -> Pmd {
        // ORDERING: Acquire; pairs with the release that published the table.
        Pmd::from_bits(word.load(Ordering::Acquire))
    }

    /// Stores an entry. Other modules call [`crate::tables::of_space::PageTables::set`].
    pub(crate) fn set(word: &AtomicU64, pmd: Pmd) {
        // ORDERING: Release; publishes the table, before the share of a replaced one is dropped.
        word.store(pmd.bits(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_begins_empty_and_uses_nothing_until_it_is_touched() {
        let words = Directory::new(1 << 37).unwrap();
        assert_eq!(words[(1 << 37) - 1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Directory::new(usize::MAX).is_none());
        assert!(Directory::new(1 << 50).is_none());
        assert!(Directory::new(0).is_none());
    }
}
