//! Conversion between the size of a file and the size of its stored form. Pure functions.
//!
//! A plain file has the same size as its stored form. A file with a page codec is stored in whole
//! pages of `P` bytes, and its size is encoded in the stored size. A file of `n` bytes in `k`
//! pages, with `t` bytes in the last one (`1 <= t <= P`), is stored in `k P + (t mod P)` bytes.
//!
//! | file | stored |
//! |---|---|
//! | 0 | 0 |
//! | `(k - 1) P + t`, `1 <= t < P` | `k P + t`: `k` pages, and `t` bytes without meaning |
//! | `k P` | `k P` |
//!
//! So one change of the stored size changes the file's size atomically. One sync makes it durable.
//!
//! - L1: Each file size has exactly one stored size, and no two file sizes share one. Stored sizes
//!   of 1 to `P - 1` bytes belong to no file.
//! - L2: A stored size of whole pages is that of a file that ends with the last of these pages.

use crate::base::page::MAX_FILE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Plain,
    Pages(u64),
}

impl Layout {
    pub(crate) const fn stored(self, size: u64) -> u64 {
        match self {
            Self::Plain => size,
            // No overflow: `size` is at most `MAX_FILE_BYTES`.
            Self::Pages(page) => size.next_multiple_of(page) + size % page,
        }
    }

    /// Returns the size of the file that is stored in `stored` bytes, or `None` if no file is (L1).
    pub(crate) const fn size(self, stored: u64) -> Option<u64> {
        match self {
            Self::Plain => Some(stored),
            Self::Pages(page) => match (stored / page, stored % page) {
                (_, 0) => Some(stored),
                (0, _) => None,
                (pages, rest) => Some((pages - 1) * page + rest),
            },
        }
    }

    pub(crate) const fn pages_end(self, size: u64) -> u64 {
        match self {
            Self::Plain => size,
            Self::Pages(page) => size.next_multiple_of(page),
        }
    }

    pub(crate) const fn has_part(self, size: u64) -> bool {
        match self {
            Self::Plain => false,
            Self::Pages(page) => !size.is_multiple_of(page),
        }
    }

    pub(crate) const fn is_of_pages(self) -> bool {
        matches!(self, Self::Pages(_))
    }
}

const _: () = assert!(MAX_FILE_BYTES < u64::MAX / 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_told_by_one_size_of_the_storage() {
        for page in [1_u64, 2, 8, 4096] {
            let layout = Layout::Pages(page);
            let most = (page * 5).max(40);
            let mut stored_sizes = std::collections::BTreeSet::new();
            for size in 0..=most {
                let stored = layout.stored(size);
                assert_eq!(layout.size(stored), Some(size), "{size} by {page}");
                assert!(stored_sizes.insert(stored));
                assert_eq!(stored / page, size.div_ceil(page));
                assert_eq!(layout.pages_end(size), size.div_ceil(page) * page);
                assert_eq!(layout.has_part(size), size % page != 0);
            }
            for stored in 0..=most {
                let is_none = (1..page).contains(&stored);
                assert_eq!(layout.size(stored).is_none(), is_none, "{stored}");
                if !is_none {
                    assert!(stored_sizes.contains(&stored) || stored > most - page);
                }
            }
        }
    }

    /// L2: the states that a power failure during a growth may leave.
    #[test]
    fn whole_pages_of_storage_are_no_less_than_the_file_that_they_were_set_for() {
        let layout = Layout::Pages(8);
        for size in 0..64_u64 {
            for pages in size.div_ceil(8)..10 {
                let between = layout.size(pages * 8);
                assert!(between.is_some_and(|between| between >= size));
            }
        }
    }

    #[test]
    fn a_plain_file_has_the_size_of_its_storage() {
        for size in [0, 1, 4095, 4096, MAX_FILE_BYTES] {
            assert_eq!(Layout::Plain.stored(size), size);
            assert_eq!(Layout::Plain.size(size), Some(size));
            assert_eq!(Layout::Plain.pages_end(size), size);
            assert!(!Layout::Plain.has_part(size));
        }
    }
}
