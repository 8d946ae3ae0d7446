//! How the size of a file is told by the size of its storage. Pure.
//!
//! A plain file and its storage have one size. A file with hooks on its bytes is stored in whole pages of `P` bytes, and its size is kept in the size of the
//! storage, with no header: the storage of a file of `n` bytes in `k` pages, the last of which has `t` of them (`1 <= t <= P`), has `k P + (t mod P)` bytes.
//!
//! | file | storage |
//! |---|---|
//! | 0 | 0 |
//! | `(k - 1) P + t`, `1 <= t < P` | `k P + t`: `k` pages, and `t` bytes past them, which mean nothing |
//! | `k P` | `k P` |
//!
//! So one change of the storage's size changes the file's, at once and for good or not at all, and the same sync makes it durable.
//!
//! - L1: each size of a file has one size of its storage, and no other size has that one. What is left is 1 to `P - 1` bytes of storage: these are no file's.
//! - L2: a storage of whole pages is a file that ends with the last of them.

use crate::base::page::MAX_FILE_BYTES;

/// How the size of a file is told by the size of its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The file's bytes, and nothing else.
    Plain,
    /// Whole pages of so many bytes.
    Pages(u64),
}

impl Layout {
    /// The size of the storage of a file of `size` bytes.
    pub(crate) const fn stored(self, size: u64) -> u64 {
        match self {
            Self::Plain => size,
            // No overflow: no file is as large as that.
            Self::Pages(page) => size.next_multiple_of(page) + size % page,
        }
    }

    /// The size of the file whose storage has `stored` bytes; none if there is no such file.
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

    /// Where the storage of a file of `size` bytes has its last whole page's end; of a plain file the end.
    pub(crate) const fn pages_end(self, size: u64) -> u64 {
        match self {
            Self::Plain => size,
            Self::Pages(page) => size.next_multiple_of(page),
        }
    }

    /// Whether the storage of a file of so many bytes has a page of which only a part is the file's.
    pub(crate) const fn has_part(self, size: u64) -> bool {
        match self {
            Self::Plain => false,
            Self::Pages(page) => !size.is_multiple_of(page),
        }
    }

    /// Whether the storage has whole pages.
    pub(crate) const fn is_of_pages(self) -> bool {
        matches!(self, Self::Pages(_))
    }
}

const _: () = assert!(MAX_FILE_BYTES < u64::MAX / 4);

#[cfg(all(test, not(loom)))]
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

    /// What a loss of power in the middle of a growth may leave: L2.
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
