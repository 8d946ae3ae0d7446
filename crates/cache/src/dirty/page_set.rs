//! Sets of pages of one file: a bit for each page and set, and for each extent how many of its pages are in each set.
//!
//! Place. A mapping that is written to has two sets: dirty pages, and pages that are written and
//! not known to be durable.
//!
//! Layout. The bits of an extent ([`crate::base::extent`]) for all sets are in one page of the system's memory, set by set. The
//! two counts of an extent are in one word. So a walk over a set skips an empty extent by one load, and a file of a terabyte has
//! 256 KiB of counts.
//!
//! Protocol. The holder of a page's claim puts the page in and takes it out, so no two threads change one bit. What pages share, a
//! word of bits and a word of counts, changes by read-modify-writes alone:
//! 1. Putting in: count the page; set its bit.
//! 2. Taking out: clear the bit; count the page no more.
//!
//! Nothing is ever cleared but by whom it belongs to: a count is the sum of what the pages' own threads have added, and each of
//! them adds before it subtracts. So as long as a page is in a set, the count of its extent is not zero, at any moment. A thread
//! that goes over the set, with or without a lock, finds every page that was put in before (as it has learnt by the page's claim or
//! a lock), and not taken out since.
//!
//! Memory. The bits of an extent may be discarded while no leaf of it is in use: then no page of it is in a set. The index does
//! that ([`crate::index::extents`]), since it knows which leaves are in use, and has what the bits take charged to the budget.
//! The counts stay, as long as the file is open: 8 bytes for each 8192 pages that were written to.
//!
//! Proved by: the tests below; `loom_set_vs_set`, `loom_insert_vs_insert`, `loom_insert_vs_remove`.

use std::sync::Arc;

use pagewell_sync::atomic::Ordering;

use crate::base::extent::{EXTENT_BIT_WORDS, EXTENT_PAGES, EXTENT_WORDS};
use crate::base::page::PageNr;
use crate::base::reserved::Reserved;

/// One of the sets of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The pages that the storage does not have.
    Dirty,
    /// The pages that the storage was given, and has not reported durable.
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

/// The sets of a file.
#[derive(Debug)]
pub(crate) struct PageSets {
    /// For each extent the bits of its pages, set by set.
    bits: Arc<Reserved>,
    /// For each extent how many of its pages are in each set.
    counts: Reserved,
}

/// How many bits of a word of counts belong to one set.
const COUNT_BITS: usize = 32;

const _: () = assert!(EXTENT_PAGES < 1 << (COUNT_BITS - 1));

const BITS: u64 = u64::BITS as u64;

impl PageSets {
    /// Empty sets of pages below `nr_pages`; none when the system does not give the addresses.
    pub(crate) fn new(nr_pages: u64) -> Option<Self> {
        let nr_extents = usize::try_from(nr_pages.div_ceil(EXTENT_PAGES)).ok()?;
        Some(Self {
            bits: Arc::new(Reserved::new(nr_extents.checked_mul(EXTENT_WORDS)?)?),
            counts: Reserved::new(nr_extents)?,
        })
    }

    /// The bits: [`EXTENT_WORDS`] words for each extent. They may be discarded while no leaf of the extent is in use.
    pub(crate) fn bits(&self) -> &Arc<Reserved> {
        &self.bits
    }

    pub(crate) fn set(&self, which: Which) -> PageSet<'_> {
        PageSet { sets: self, which }
    }
}

/// A set of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSet<'s> {
    sets: &'s PageSets,
    which: Which,
}

impl PageSet<'_> {
    /// The words of bits of an extent begin here.
    const fn first_word(self, extent: usize) -> usize {
        extent * EXTENT_WORDS + self.which.nr() * EXTENT_BIT_WORDS
    }

    /// Where the bit of `page` is.
    const fn place(self, page: PageNr) -> (usize, u64) {
        let (extent, nr) = ((page / EXTENT_PAGES) as usize, page % EXTENT_PAGES);
        let word = self.first_word(extent) + (nr / BITS) as usize;
        (word, 1 << (nr % BITS))
    }

    /// Where the extent of `page` is counted, and one page there.
    const fn count_of(self, page: PageNr) -> (usize, u64) {
        let extent = (page / EXTENT_PAGES) as usize;
        (extent, 1 << (self.which.nr() * COUNT_BITS))
    }

    /// Puts `page` in; the caller has claimed its slot. Whether it was not in.
    pub(crate) fn insert(self, page: PageNr) -> bool {
        let ((at, bit), (extent, one)) = (self.place(page), self.count_of(page));
        // ORDERING: Relaxed, all of them here and below. The changes of one page are ordered by its claim. A thread that must find
        // the page comes after its claim, so by coherence it loads what these have stored, or what came later: read-modify-writes
        // of other pages, which leave the page's bit, and its part of the count, as they are.
        self.sets.counts[extent].fetch_add(one, Ordering::Relaxed);
        let is_new = self.sets.bits[at].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        if !is_new {
            // It was counted before.
            self.sets.counts[extent].fetch_sub(one, Ordering::Relaxed);
        }
        is_new
    }

    /// Takes `page` out; the caller has claimed its slot. Whether it was in.
    pub(crate) fn remove(self, page: PageNr) -> bool {
        let ((at, bit), (extent, one)) = (self.place(page), self.count_of(page));
        let was_in = self.sets.bits[at].fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        if was_in {
            self.sets.counts[extent].fetch_sub(one, Ordering::Relaxed);
        }
        was_in
    }

    /// The first page of the set from `from` on, below `end`.
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

    /// How many pages of an extent are in the set, or are being put in.
    fn nr_in_extent(self, extent: usize) -> u64 {
        let counts = self.sets.counts[extent].load(Ordering::Relaxed);
        counts >> (self.which.nr() * COUNT_BITS) & ((1 << COUNT_BITS) - 1)
    }

    /// How many pages of the extents that begin below `end` are in the set.
    pub(crate) fn nr(self, end: PageNr) -> usize {
        let nr_extents = end.div_ceil(EXTENT_PAGES) as usize;
        let extents = 0..nr_extents.min(self.sets.counts.len());
        extents
            .map(|extent| self.nr_in_extent(extent) as usize)
            .sum()
    }

    /// The first page of the set from `from` on, below `end`, which are of one extent.
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

#[cfg(all(test, not(loom)))]
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
        // Nothing is counted, or has a bit, that is not in.
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
