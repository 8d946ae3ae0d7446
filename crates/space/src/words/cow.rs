//! Decision of a write to a page that is not writable in place. Pure.

use crate::words::counts::Counts;

/// Other references to the page's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// None except that of the entries.
    Mapped,
    /// At least one, of a pin or of another thread.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cow {
    /// Write in place: no other entry or reference uses the page any more.
    Reuse,
    /// Write to a copy.
    Copy,
}

/// Decides for a holder of the claim of a present entry, in an exclusive table and writable area.
///
/// The counts cannot grow past "mapped once" concurrently: another entry is created by copying one,
/// and the only one is claimed. A new pin needs the claim too. An isolated page may be about to get
/// more entries: those that are still migration entries of the frame that it is being moved out of.
pub(crate) const fn decide(counts: Counts, references: References) -> Cow {
    match references {
        References::Mapped if counts.is_mapped_once() && !counts.is_isolated() => Cow::Reuse,
        _ => Cow::Copy,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::words::counts::{ISOLATED, MAPPING, MIGRATION};

    #[test]
    fn only_a_page_of_one_entry_that_is_not_pinned_or_moved_is_reused() {
        for mappings in 0..3 {
            for migrations in 0..3 {
                for isolated in [0, ISOLATED] {
                    let word = mappings * MAPPING + migrations * MIGRATION + isolated;
                    for references in [References::Mapped, References::Foreign] {
                        let reuse = (mappings, migrations, isolated) == (1, 0, 0)
                            && references == References::Mapped;
                        let decided = decide(Counts::from_bits(word), references);
                        assert_eq!(decided == Cow::Reuse, reuse, "{word:x} {references:?}");
                    }
                }
            }
        }
    }
}
