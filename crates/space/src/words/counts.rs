//! How many entries name a frame: of each kind, exactly, in one word. Pure.
//!
//! ```text
//! 63        57     56      55                     28 27              0
//! [    0     ][isolated][ migration entries (28) ][ mappings (28) ]
//! ```
//!
//! The word is in the frame's record. Each entry of a page table that names the frame is counted once, in one field
//! or the other, by whoever holds the entry's claim while it is made, copied, turned or dropped (I1):
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
//! A turn is one addition to the word, so there is no moment at which an entry is not counted. So "no mappings" is
//! the truth about the whole machine, tables that are being copied and that no space shows yet included, and so is
//! "no migration entries": walks may stop there, whatever else goes on.
//!
//! While the word is not zero the frame has one reference, on behalf of all that is counted here. Whoever makes it
//! zero drops that one (I2); nothing is added to a zero. `isolated` is the mark of the one migration that a frame is
//! subject to, on both frames: the one that the page leaves and the one that it comes to. It keeps them from being freed
//! meanwhile, and says of the latter that it may have more mappings in a moment (I3).
//!
//! The limit of migration entries is 2^24 - 1, the same as where it is a part of a typed word of 32 bits; the field
//! is wider, so that those who are over it and about to give back do not run into the mark.

use std::fmt;

/// One mapping.
pub(crate) const MAPPING: u64 = 1;
/// One migration entry.
pub(crate) const MIGRATION: u64 = 1 << FIELD_BITS;
/// The frame is being migrated.
pub(crate) const ISOLATED: u64 = 1 << (2 * FIELD_BITS);

const FIELD_BITS: u32 = 28;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;

/// The most migration entries that a frame may have.
pub(crate) const MAX_MIGRATION_ENTRIES: u32 = if cfg!(loom) { 2 } else { (1 << 24) - 1 };

/// The most mappings that a frame may have: a table each, of 4 KiB.
pub(crate) const MAX_MAPPINGS: u32 = (1 << (FIELD_BITS - 1)) - 1;

/// The word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts(u64);

impl Counts {
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// How many present entries name the frame.
    pub(crate) const fn mappings(self) -> u32 {
        (self.0 & FIELD_MASK) as u32
    }

    /// How many migration entries name the frame.
    pub(crate) const fn migrations(self) -> u32 {
        (self.0 >> FIELD_BITS & FIELD_MASK) as u32
    }

    pub(crate) const fn is_isolated(self) -> bool {
        self.0 & ISOLATED != 0
    }

    /// Whether nothing is counted, so that the reference is to be dropped.
    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether this is the count of a frame that one entry names, a present one.
    pub(crate) const fn is_mapped_once(self) -> bool {
        self.mappings() == 1 && self.migrations() == 0
    }

    /// Whether one more mapping, added to this, is too many and has to be taken back.
    pub(crate) const fn is_over_with_mapping(self) -> bool {
        self.mappings() >= MAX_MAPPINGS
    }

    /// As for a mapping.
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

#[cfg(all(test, not(loom)))]
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
