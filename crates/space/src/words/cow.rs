//! Decision whether a write copies the page of a present entry without the writable bit.

use crate::words::counts::Counts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// None except the one that all entries hold together.
    Mapped,
    /// At least one more, held by a pin or by another thread.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Cow {
    /// Write in place: no other entry or reference uses the page any more.
    Reuse,
    Copy,
}

/// Decides whether to copy. The caller has claimed the entry, in an exclusive table and a writable
/// area. If the page is mapped once, the decision stays valid during the claim, since another entry
/// or a pin requires a claim of an entry, too. An isolated page is copied, since migration entries
/// of its old frame may be about to become entries of this page.
pub(crate) const fn decide(counts: Counts, references: References) -> Cow {
    match references {
        References::Mapped if counts.is_mapped_once() && !counts.is_isolated() => Cow::Reuse,
        _ => Cow::Copy,
    }
}

#[cfg(test)]
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
