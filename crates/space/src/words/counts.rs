//! Exact numbers of the entries that name a frame, by kind, in one word.
//!
//! ```text
//! 63        57     56      55                     28 27              0
//! [    0     ][isolated][ migration entries (28) ][ mappings (28) ]
//! ```
//!
//! The word is in the frame's metadata. Each page-table entry that names the frame is counted once,
//! in one of the fields. The thread that has claimed the entry, to create, copy, convert or drop
//! it, changes the count. Increases and conversions come before the end of the claim, decreases
//! before or after it (I1; exceptions: [`crate::words::claim`]):
//!
//! | change of an entry | mappings | migration entries |
//! |---|---|---|
//! | a page is mapped, or a present entry copied with its table | +1 | |
//! | a present entry is dropped | -1 | |
//! | first walk: present becomes migration | -1 | +1 |
//! | a migration entry is copied with its table | | +1 |
//! | a migration entry is dropped | | -1 |
//! | second walk: migration becomes present, in another frame | +1 there | -1 |
//! | undo: migration becomes present, in the same frame | +1 | -1 |
//!
//! A conversion within a frame is one addition, so each entry is counted at any time, even in a
//! copied table that is in no directory yet. So a walk may stop if the count of its kind is zero.
//!
//! While the word is not zero, all counted entries together hold one reference to the frame. The
//! thread that makes the word zero drops it (I2). No thread adds to a word that is zero. `isolated`
//! marks both frames of a migration by walks; a frame is in one migration at a time. The bit keeps
//! both from being freed, and shows that the new one may get more mappings (I3). Migration entries
//! are limited to 2^24 - 1, far below the range of the field, so that additions past the limit do
//! not overflow into the bit before they are reverted.

use std::fmt;

use pagewell_sync::scaled;

pub(crate) const MAPPING: u64 = 1;
pub(crate) const MIGRATION: u64 = 1 << FIELD_BITS;
pub(crate) const ISOLATED: u64 = 1 << (2 * FIELD_BITS);

const FIELD_BITS: u32 = 28;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;

pub(crate) const MAX_MIGRATION_ENTRIES: u32 = scaled((1 << 24) - 1, 2);

/// Maximum number of mappings of a frame. Each needs a table of 4 KiB: 512 GiB in all.
pub(crate) const MAX_MAPPINGS: u32 = (1 << (FIELD_BITS - 1)) - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts(u64);

impl Counts {
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn mappings(self) -> u32 {
        (self.0 & FIELD_MASK) as u32
    }

    pub(crate) const fn migrations(self) -> u32 {
        (self.0 >> FIELD_BITS & FIELD_MASK) as u32
    }

    pub(crate) const fn is_isolated(self) -> bool {
        self.0 & ISOLATED != 0
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_mapped_once(self) -> bool {
        self.mappings() == 1 && self.migrations() == 0
    }

    /// Returns `true` if only one entry names the page, and a migration adds none: migration
    /// entries of the old frame may be about to become entries of an isolated page.
    pub(crate) const fn is_of_one_entry(self) -> bool {
        self.is_mapped_once() && !self.is_isolated()
    }

    /// Returns `true` if one mapping added to these counts exceeds the limit and must be reverted.
    pub(crate) const fn is_over_with_mapping(self) -> bool {
        self.mappings() >= MAX_MAPPINGS
    }

    pub(crate) const fn is_over_with_migration(self) -> bool {
        self.migrations() >= MAX_MIGRATION_ENTRIES
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("mappings", &self.mappings())
            .field("migrations", &self.migrations())
            .field("isolated", &self.is_isolated())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other() {
        let max = [0, 1, 2, MAX_MAPPINGS - 1, MAX_MAPPINGS];
        for mappings in max {
            for migrations in [0, 1, MAX_MIGRATION_ENTRIES, MAX_MIGRATION_ENTRIES + 1000] {
                for isolated in [0, ISOLATED] {
                    let word = u64::from(mappings) * MAPPING
                        + u64::from(migrations) * MIGRATION
                        + isolated;
                    let counts = Counts::from_bits(word);
                    assert_eq!(counts.mappings(), mappings);
                    assert_eq!(counts.migrations(), migrations);
                    assert_eq!(counts.is_isolated(), isolated != 0);
                    assert_eq!(counts.is_zero(), word == 0);
                    let over = migrations >= MAX_MIGRATION_ENTRIES;
                    assert_eq!(counts.is_over_with_migration(), over);
                    assert_eq!(counts.is_over_with_mapping(), mappings >= MAX_MAPPINGS);
                    assert_eq!(counts.is_mapped_once(), mappings == 1 && migrations == 0);
                    let is_of_one_entry = (mappings, migrations, isolated) == (1, 0, 0);
                    assert_eq!(counts.is_of_one_entry(), is_of_one_entry);
                    if mappings > 0 {
                        let turned = Counts::from_bits(word - MAPPING + MIGRATION);
                        assert_eq!(turned.mappings(), mappings - 1);
                        assert_eq!(turned.migrations(), migrations + 1);
                        assert_eq!(turned.is_isolated(), isolated != 0);
                    }
                }
            }
        }
    }

    #[test]
    fn the_limit_is_that_of_a_typed_word() {
        assert_eq!(MAX_MIGRATION_ENTRIES, 0xff_ffff);
    }
}
