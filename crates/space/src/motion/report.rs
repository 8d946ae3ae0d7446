use std::time::Duration;

/// Method of moving pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Baseline: moves page by page. The second walk visits all areas that may map the page.
    FullWalk,
    /// Moves page by page. The second walk ends with the last migration entry.
    EarlyStop,
    /// Moves many pages by one walk, and pages that are mapped once under the claim of their entry.
    #[default]
    Batched,
}

impl Engine {
    pub(crate) fn batch(self) -> usize {
        match self {
            Self::FullWalk | Self::EarlyStop => 1,
            Self::Batched => 64,
        }
    }
}

/// Reason why a page was not moved. The page is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotMoved {
    /// The node has no free frame for the page.
    NodeFull,
    /// The page is pinned, or is a file's page that is read or written with a reference.
    Pinned,
    /// Another thread is moving the page.
    InMigration,
    /// More entries map the page than can be counted while it is moved: 2^24 - 1.
    TooManyEntries,
    /// Some entries were not found: in each walk, a table was being copied, moved or dropped.
    StillMapped,
}

/// Result of a migration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Migrated {
    /// Number of moved pages.
    pub nr_moved: usize,
    /// Number of pages that already were on the node.
    pub nr_there: usize,
    /// Pages that were not moved, by address, with the reason.
    pub not_moved: Vec<(u64, NotMoved)>,
    /// Time for selecting pages, moving those that are mapped once, and the others' first walks.
    pub first_walk: Duration,
    /// Time for copying the pages whose entries were walked.
    pub copy: Duration,
    /// Time for the second walks, which replace migration entries by present ones.
    pub second_walk: Duration,
}
