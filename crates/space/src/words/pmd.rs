//! Directory entry: a word that names the table for 2 MiB of addresses; and the [`Directory`], the
//! array of these words.
//!
//! ```text
//! 63 62          33 32            6   5   2      1        0
//! [0][  frame (30)  ][ version (27) ][order][exclusive][small]
//! ```
//!
//! `order` is that of the pages in the table. `small` means that there is a table and its order is
//! 0, so that a read tests both at once. If `small` and `order` are zero, there is no table.
//! `exclusive` means that no other space uses the table, so pages may be mapped in it and written
//! through it. A fork clears the bit. It is set again when the other spaces have dropped the table,
//! or this space has copied it.
//!
//! Every change increments the version, which is never reset. A view that finds the same word
//! before and after has therefore used only its space's table. A change needs the unsharing lock,
//! or the structure lock for writing, so a version could repeat only after 2^27 acquisitions within
//! one view. (Copying reads check the sequence counter.)

use std::fmt;
use std::ops::{Deref, Range};

use pagewell_frame::{FrameNr, Order};
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::region::Region;

use crate::words::geometry::{MAX_PAGE_ORDER, TABLE_BYTES, TABLE_SHIFT, table_of};
use crate::words::pte::{FRAME_SHIFT, VERSION_MASK, VERSION_SHIFT, next_version, start_in_pool};

const SMALL: u64 = 1 << 0;
const EXCLUSIVE: u64 = 1 << 1;
const ORDER_SHIFT: u32 = 2;
const ORDER_MASK: u64 = 0xf << ORDER_SHIFT;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pmd(u64);

impl Pmd {
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn is_present(self) -> bool {
        self.0 & (SMALL | ORDER_MASK) != 0
    }

    #[inline]
    pub(crate) const fn has_small_pages(self) -> bool {
        self.0 & SMALL != 0
    }

    #[inline]
    pub(crate) const fn has_huge_pages(self) -> bool {
        self.0 & ORDER_MASK == (MAX_PAGE_ORDER.get() as u64) << ORDER_SHIFT
    }

    #[inline]
    pub(crate) const fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// Returns the number of the table's frame; meaningless if there is no table.
    #[inline]
    pub(crate) const fn frame(self) -> u32 {
        (self.0 >> FRAME_SHIFT) as u32
    }

    /// Returns the byte offset of the table in the pool's memory; meaningless if there is no table.
    #[inline(always)]
    pub(crate) const fn table_start(self) -> usize {
        start_in_pool(self.0)
    }

    pub(crate) fn table(self) -> Option<FrameNr> {
        self.is_present().then(|| FrameNr::new(self.frame()))
    }

    #[inline]
    pub(crate) const fn order(self) -> u32 {
        ((self.0 & ORDER_MASK) >> ORDER_SHIFT) as u32
    }

    /// Returns the entry after this space has obtained an exclusive table for pages of `order`.
    pub(crate) const fn with_table(self, table: FrameNr, order: Order) -> Self {
        let small = if order.get() == 0 { SMALL } else { 0 };
        let order = (order.get() as u64) << ORDER_SHIFT;
        let frame = (table.get() as u64) << FRAME_SHIFT;
        Self(frame | next_version(self.0) | order | EXCLUSIVE | small)
    }

    /// Returns the entry after a fork: another space uses the table, too.
    pub(crate) const fn shared(self) -> Self {
        Self(self.0 & !(VERSION_MASK | EXCLUSIVE) | next_version(self.0))
    }

    /// Returns the entry after all other spaces have dropped the table: exclusive.
    pub(crate) const fn taken_over(self) -> Self {
        Self(self.0 & !VERSION_MASK | next_version(self.0) | EXCLUSIVE)
    }

    pub(crate) const fn emptied(self) -> Self {
        Self(next_version(self.0))
    }
}

impl fmt::Debug for Pmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmd")
            .field("table", &self.table())
            .field("order", &self.order())
            .field("exclusive", &self.is_exclusive())
            .field("version", &((self.0 & VERSION_MASK) >> VERSION_SHIFT))
            .finish()
    }
}

/// Directory of a space: an array with a word for each 2 MiB of its addresses, reserved as a whole.
/// It uses memory only where tables exist. [`crate::areas::noted`] has such an array, too.
///
/// A clone is the same directory. Links keep it, empty, after the end of its space (F2 of
/// [`crate::pages::links`]).
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

    /// As [`words`](Self::words), each with the first address of its table.
    pub(crate) fn words_at(&self, range: &Range<u64>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let first = range.start & !(TABLE_BYTES - 1);
        let starts = (first..).step_by(TABLE_BYTES as usize);
        self.words(range).iter().zip(starts)
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
    use pagewell_frame::FRAME_NR_BITS;

    use super::*;

    const LAST: u64 = VERSION_MASK >> VERSION_SHIFT;

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

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    #[test]
    fn zeros_are_no_table() {
        let none = Pmd::from_bits(0);
        assert!(!none.is_present() && !none.is_exclusive());
        assert!(!none.has_small_pages() && !none.has_huge_pages());
        assert_eq!(none.table(), None);
    }

    #[test]
    fn every_change_moves_the_version_and_keeps_what_it_should() {
        for version in [0, 1, LAST - 1, LAST] {
            for frame in [0, 5, (1 << FRAME_NR_BITS) - 2] {
                for of_pages in 0..=9 {
                    let none = Pmd::from_bits(version << VERSION_SHIFT);
                    let own = none.with_table(FrameNr::new(frame), order(of_pages));
                    assert!(own.is_exclusive());
                    let all = [own, own.shared(), own.shared().taken_over()];
                    for (nr, pmd) in all.into_iter().enumerate() {
                        assert_eq!(pmd.table(), Some(FrameNr::new(frame)));
                        assert_eq!(pmd.order(), u32::from(of_pages));
                        assert_eq!(pmd.has_small_pages(), of_pages == 0);
                        assert_eq!(pmd.has_huge_pages(), of_pages == 9);
                        assert_eq!(pmd.is_exclusive(), nr != 1);
                        let moved = (pmd.0 & VERSION_MASK) >> VERSION_SHIFT;
                        assert_eq!(moved, (version + 1 + nr as u64) & LAST);
                        assert!(!pmd.emptied().is_present());
                        assert_ne!(pmd.emptied().0 & VERSION_MASK, pmd.0 & VERSION_MASK);
                    }
                }
            }
        }
    }
}
