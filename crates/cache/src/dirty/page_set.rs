//! A set of pages of one file, in two levels of bits: which pages, and which words of that have any.
//!
//! Place. A mapping that is written to has two: pages that are dirty, and pages that are written and not
//! known to be durable.
//!
//! Protocol. A page is put in and taken out by the holder of its slot's claim, so that a bit is never
//! changed by two. Words are shared by 64 pages, and so are the bits above them:
//! 1. Putting in: set the page's bit; then the bit above, if the word was empty.
//! 2. Who finds a word empty clears the bit above, and looks at the word again; if it is not empty any more,
//!    the bit above is set again.
//!
//! By 1 and 2 a word with pages has its bit above set, or somebody is about to set it: the thread that put the
//! first page in, before it ends its claim. So whoever goes over the set after a page was put in (and has
//! learnt so, by the claim or a lock) finds it.
//!
//! Proved by: the tests below; `loom_set_vs_clear`.

use pagewell_sync::atomic::Ordering;

use crate::base::page::PageNr;
use crate::base::reserved::Reserved;

/// A set of pages.
#[derive(Debug)]
pub(crate) struct PageSet {
    /// A bit for each page.
    pages: Reserved,
    /// A bit for each word of `pages`.
    words: Reserved,
}

const BITS: u64 = u64::BITS as u64;

/// Where the bit of number `nr` is.
fn place(nr: u64) -> (usize, u64) {
    ((nr / BITS) as usize, 1 << (nr % BITS))
}

impl PageSet {
    /// An empty set of pages below `nr_pages`; none when the system does not give the addresses.
    pub(crate) fn new(nr_pages: u64) -> Option<Self> {
        let nr_words = usize::try_from(nr_pages.div_ceil(BITS)).ok()?;
        Some(Self {
            pages: Reserved::new(nr_words)?,
            words: Reserved::new(nr_words.div_ceil(BITS as usize))?,
        })
    }

    /// Puts `page` in; the caller has claimed its slot. Whether it was not in.
    pub(crate) fn insert(&self, page: PageNr) -> bool {
        let (at, bit) = place(page);
        // ORDERING: Release, so that who clears the bit above (acquire) and looks again sees this one; E.g.
        // Relaxed would do for the claim, which publishes the bit as it does the page.
        let before = self.pages[at].fetch_or(bit, Ordering::Release);
        let (at, above) = place(at as u64);
        // Also if the word was not empty: who has put the first page in may not have come to this yet, and our page is
        // to be found when we are done.
        // ORDERING: AcqRel. Read-modify-writes of one word are in one order: if ours comes before the
        // clearing, that one acquires the page's bit and finds it; if after, it stays.
        self.words[at].fetch_or(above, Ordering::AcqRel);
        before & bit == 0
    }

    /// Takes `page` out; the caller has claimed its slot. Whether it was in.
    pub(crate) fn remove(&self, page: PageNr) -> bool {
        let (at, bit) = place(page);
        // ORDERING: Relaxed; the claim orders it against the page's other changes, and the bit above is
        // cleared by who finds the word empty.
        self.pages[at].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    /// The first page of the set from `from` on, below `end`.
    pub(crate) fn next(&self, from: PageNr, end: PageNr) -> Option<PageNr> {
        let end = end.min(self.pages.len() as u64 * BITS);
        let mut page = from;
        while page < end {
            let (at, _) = place(page);
            // ORDERING: Relaxed, here and below; whoever must find a page has learnt of it by the claim of
            // its slot, or by a lock.
            let rest = self.pages[at].load(Ordering::Relaxed) >> (page % BITS);
            if rest != 0 {
                let found = page + u64::from(rest.trailing_zeros());
                return (found < end).then_some(found);
            }
            if page.is_multiple_of(BITS) {
                self.note_empty(at);
            }
            page = self.next_word(at as u64 + 1, end.div_ceil(BITS))? * BITS;
        }
        None
    }

    /// Clears the bit above a word that is empty.
    fn note_empty(&self, word: usize) {
        let (at, bit) = place(word as u64);
        // ORDERING: Relaxed; a hint that saves the write.
        if self.words[at].load(Ordering::Relaxed) & bit == 0 {
            return;
        }
        // ORDERING: AcqRel; see `insert`.
        self.words[at].fetch_and(!bit, Ordering::AcqRel);
        if self.pages[word].load(Ordering::Relaxed) != 0 {
            self.words[at].fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// The first word that may have pages, from number `from` on; if it is not below `end`, it may have none.
    fn next_word(&self, from: u64, end: u64) -> Option<u64> {
        let (mut at, _) = place(from);
        let mut skip = from % BITS;
        let words = (end.div_ceil(BITS) as usize).min(self.words.len());
        while at < words {
            let rest = self.words[at].load(Ordering::Relaxed) >> skip;
            if rest != 0 {
                return Some(at as u64 * BITS + skip + u64::from(rest.trailing_zeros()));
            }
            at += 1;
            skip = 0;
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn all(set: &PageSet, from: u64, end: u64) -> Vec<u64> {
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
        let set = PageSet::new(1 << 20).unwrap();
        let pages = [0, 1, 63, 64, 4095, 4096, 70_000, (1 << 20) - 1];
        for page in pages.iter().rev() {
            assert!(set.insert(*page));
            assert!(!set.insert(*page));
        }
        assert_eq!(all(&set, 0, u64::MAX), pages);
        assert_eq!(all(&set, 2, 4096), [63, 64, 4095]);
        assert_eq!(all(&set, 65, 65), [] as [u64; 0]);
        for page in pages {
            assert!(set.remove(page));
            assert!(!set.remove(page));
        }
        assert_eq!(set.next(0, u64::MAX), None);
        // The bits above were cleared on the way, and are set again.
        assert!(set.insert(70_000));
        assert_eq!(all(&set, 0, u64::MAX), [70_000]);
    }

    #[test]
    fn a_set_of_a_huge_sparse_file_is_gone_over_quickly() {
        let set = PageSet::new(1 << 36).unwrap();
        set.insert((1 << 36) - 1);
        assert_eq!(set.next(0, u64::MAX), Some((1 << 36) - 1));
    }
}
