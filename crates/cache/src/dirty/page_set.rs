//! Sets of dirty and of unsynced pages of one file: a bit per page, and a count per leaf cluster.
//!
//! Layout. The bits of one leaf cluster ([`crate::base::page`]), for all sets, are in one page of
//! the operating system's memory, one set after the other. The two counts of a cluster are in one
//! word. So a walk skips an empty cluster with one load, and a file of 1 TiB has 256 KiB of counts.
//!
//! Protocol. The holder of a page's claim inserts and removes the page, so no two threads change a
//! bit concurrently. Pages share words, so these change only by read-modify-writes:
//! 1. Insert: increment the count, then set the bit.
//! 2. Remove: clear the bit, then decrement the count.
//!
//! For each page the increment comes first, so while a page is in a set, the count of its cluster
//! is never zero. A thread that walks the set, with or without a lock, finds every page that is
//! still in the set and whose insertion happens before the walk (by the page's claim or a lock).
//!
//! Memory. While no leaf of a cluster is in use, its bits are zero. The index
//! ([`crate::index::extents`]) may then discard them; it charges them to the budget. The counts
//! stay as long as the file is open: 8 bytes for each 8192 pages that were written to.
//!
//! Verified by: the tests below; `loom_set_vs_set`, `loom_insert_vs_insert`,
//! `loom_insert_vs_remove`.

use pagewell_sync::atomic::Ordering;
use pagewell_sync::region::Region;

use crate::base::page::{EXTENT_BIT_WORDS, EXTENT_PAGES, EXTENT_WORDS, PageNr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Dirty,
    /// Unsynced pages: submitted to the backend, and not reported durable.
    Written,
}

impl Which {
    const fn nr(self) -> usize {
        match self {
            Self::Dirty => 0,
            Self::Written => 1,
        }
    }
}

#[derive(Debug)]
pub(crate) struct PageSets {
    bits: Region,
    counts: Region,
}

const COUNT_BITS: usize = 32;

const _: () = assert!(EXTENT_PAGES < 1 << (COUNT_BITS - 1));

const BITS: u64 = u64::BITS as u64;

impl PageSets {
    #[cfg(test)]
    pub(crate) fn new(nr_pages: u64) -> Option<Self> {
        let arrays = Region::reserve_all(Self::lens(nr_pages)?);
        Some(Self::with_arrays(arrays.ok()?))
    }

    /// Returns the lengths for [`with_arrays`](Self::with_arrays), for pages below `nr_pages`.
    pub(crate) fn lens(nr_pages: u64) -> Option<[usize; 2]> {
        let nr_extents = usize::try_from(nr_pages.div_ceil(EXTENT_PAGES)).ok()?;
        Some([nr_extents.checked_mul(EXTENT_WORDS)?, nr_extents])
    }

    pub(crate) fn with_arrays([bits, counts]: [Region; 2]) -> Self {
        debug_assert_eq!(bits.len(), counts.len() * EXTENT_WORDS);
        Self { bits, counts }
    }

    /// Returns [`EXTENT_WORDS`] words for each leaf cluster. They may be discarded while no leaf of
    /// the cluster is in use.
    pub(crate) fn bits(&self) -> &Region {
        &self.bits
    }

    pub(crate) fn set(&self, which: Which) -> PageSet<'_> {
        PageSet { sets: self, which }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSet<'s> {
    sets: &'s PageSets,
    which: Which,
}

impl PageSet<'_> {
    const fn place(self, page: PageNr) -> (usize, u64) {
        let (extent, nr) = ((page / EXTENT_PAGES) as usize, page % EXTENT_PAGES);
        let first = extent * EXTENT_WORDS + self.which.nr() * EXTENT_BIT_WORDS;
        let word = first + (nr / BITS) as usize;
        (word, 1 << (nr % BITS))
    }

    const fn count_of(self, page: PageNr) -> (usize, u64) {
        let extent = (page / EXTENT_PAGES) as usize;
        (extent, 1 << (self.which.nr() * COUNT_BITS))
    }

    /// Inserts `page`, whose slot the caller has claimed. Returns `false` if it was in the set.
    pub(crate) fn insert(self, page: PageNr) -> bool {
        let ((at, bit), (extent, one)) = (self.place(page), self.count_of(page));
        // ORDERING: Relaxed, for all operations here and below. A page's changes are ordered by its
        // claim. The insertion happens before a walk that must find the page, so the walk loads
        // these values or later ones, which read-modify-writes for other pages derive from them.
        self.sets.counts[extent].fetch_add(one, Ordering::Relaxed);
        let is_new = self.sets.bits[at].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        if !is_new {
            self.sets.counts[extent].fetch_sub(one, Ordering::Relaxed);
        }
        is_new
    }

    /// Removes `page`, whose slot the caller has claimed. Returns `true` if it was in the set.
    pub(crate) fn remove(self, page: PageNr) -> bool {
        let ((at, bit), (extent, one)) = (self.place(page), self.count_of(page));
        let was_in = self.sets.bits[at].fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        if was_in {
            self.sets.counts[extent].fetch_sub(one, Ordering::Relaxed);
        }
        was_in
    }

    /// Returns the first page of the set from `from` on, below `end`.
    pub(crate) fn next(self, from: PageNr, end: PageNr) -> Option<PageNr> {
        let nr_extents = self.sets.counts.len() as u64;
        let end = end.min(nr_extents.saturating_mul(EXTENT_PAGES));
        let mut page = from;
        while page < end {
            let extent = page / EXTENT_PAGES;
            let next = (extent + 1) * EXTENT_PAGES;
            if self.nr_in_extent(extent as usize) != 0
                && let Some(found) = self.next_in_extent(page, end.min(next))
            {
                return Some(found);
            }
            page = next;
        }
        None
    }

    /// Returns the number of pages of a leaf cluster that are in the set, or being inserted or
    /// removed.
    fn nr_in_extent(self, extent: usize) -> u64 {
        let counts = self.sets.counts[extent].load(Ordering::Relaxed);
        counts >> (self.which.nr() * COUNT_BITS) & ((1 << COUNT_BITS) - 1)
    }

    /// Returns the number of pages in the set, in all leaf clusters that begin below `end`.
    pub(crate) fn nr(self, end: PageNr) -> usize {
        let nr_extents = end.div_ceil(EXTENT_PAGES) as usize;
        let extents = 0..nr_extents.min(self.sets.counts.len());
        extents
            .map(|extent| self.nr_in_extent(extent) as usize)
            .sum()
    }

    /// As [`next`](Self::next), with `from` and `end` in one leaf cluster.
    fn next_in_extent(self, from: PageNr, end: PageNr) -> Option<PageNr> {
        let mut page = from;
        while page < end {
            let (at, bit) = self.place(page);
            let rest = self.sets.bits[at].load(Ordering::Relaxed) >> bit.trailing_zeros();
            if rest != 0 {
                let found = page + u64::from(rest.trailing_zeros());
                return (found < end).then_some(found);
            }
            page = (page / BITS + 1) * BITS;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(set: PageSet<'_>, from: u64, end: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let mut from = from;
        while let Some(page) = set.next(from, end) {
            found.push(page);
            from = page + 1;
        }
        found
    }

    #[test]
    fn what_was_put_in_is_found_in_order_until_it_is_taken_out() {
        let sets = PageSets::new(1 << 20).unwrap();
        let pages = [0, 1, 63, 64, 4095, 4096, 8191, 8192, 70_000, (1 << 20) - 1];
        for which in [Which::Dirty, Which::Written] {
            let set = sets.set(which);
            for page in pages.iter().rev() {
                assert!(set.insert(*page));
                assert!(!set.insert(*page));
            }
            assert_eq!(all(set, 0, u64::MAX), pages);
            assert_eq!(all(set, 2, 4096), [63, 64, 4095]);
            assert_eq!(all(set, 65, 65), [] as [u64; 0]);
            assert_eq!(all(set, 8191, 8192), [8191]);
            for page in pages {
                assert!(set.remove(page));
                assert!(!set.remove(page));
            }
            assert_eq!(set.next(0, u64::MAX), None);
            assert!(set.insert(70_000));
            assert_eq!(all(set, 0, u64::MAX), [70_000]);
            assert!(set.remove(70_000));
        }
        for word in sets.counts.iter().chain(sets.bits.iter()) {
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn sets_of_one_extent_do_not_mix() {
        let sets = PageSets::new(EXTENT_PAGES).unwrap();
        let [dirty, written] = [Which::Dirty, Which::Written].map(|which| sets.set(which));
        for page in 0..EXTENT_PAGES {
            assert!(dirty.insert(page));
            assert!(page % 3 == 0 || written.insert(page));
        }
        let every = |keep: fn(&u64) -> bool| (0..EXTENT_PAGES).filter(keep).collect::<Vec<_>>();
        assert_eq!(all(dirty, 0, u64::MAX), every(|_| true));
        assert_eq!(all(written, 0, u64::MAX), every(|page| page % 3 != 0));
        for page in 0..EXTENT_PAGES {
            assert!(dirty.remove(page));
        }
        assert_eq!(dirty.next(0, u64::MAX), None);
        assert_eq!(all(written, 0, u64::MAX), every(|page| page % 3 != 0));
    }

    #[test]
    fn a_set_of_a_huge_sparse_file_is_gone_over_quickly() {
        let sets = PageSets::new(1 << 36).unwrap();
        let set = sets.set(Which::Written);
        set.insert((1 << 36) - 1);
        assert_eq!(set.next(0, u64::MAX), Some((1 << 36) - 1));
    }
}
