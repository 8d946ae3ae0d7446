//! What a write to a page does that it may not write where it is. Pure.

use crate::words::counts::Counts;

/// Who else has a reference to the page's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// Nobody but the entries that name it.
    Mapped,
    /// Somebody has it pinned, or looks at it.
    Foreign,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cow {
    /// The page is nobody else's any more: write it where it is.
    Reuse,
    /// Write to a copy.
    Copy,
}

/// Decides for the holder of the claim of a present entry, in a table of its space's own, of an area that allows
/// writes.
///
/// "Mapped once" cannot change meanwhile: another entry comes from copying one, and ours is claimed. Nor can there be
/// a new pin: it needs the claim too. A page that is isolated may be about to get more entries: those that are still
/// migration entries of the frame that it is being moved out of.
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
