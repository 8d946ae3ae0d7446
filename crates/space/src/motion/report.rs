//! Options and results of a migration.

use std::time::{Duration, Instant};

/// Method of moving pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Page by page; the second walk visits all areas that may map the page. The baseline.
    FullWalk,
    /// Page by page; the second walk ends with the last migration entry.
    EarlyStop,
    /// Many pages by one walk. Those that are mapped once move under their entry's claim.
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
    /// The node has no free frame for it.
    NodeFull,
    /// The page is pinned.
    Pinned,
    /// Another thread is moving it.
    InMigration,
    /// More entries map it than can be counted while it is moved: 2^24 - 1.
    TooManyEntries,
    /// Some entries were being copied or moved throughout, and could not be found.
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
    /// Time for selecting pages, moving those mapped once ([`Engine::Batched`]), and first walks.
    pub first_walk: Duration,
    /// Time for copying the pages that take walks.
    pub copy: Duration,
    /// Time for the second walks.
    pub second_walk: Duration,
}

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn since(start: Instant) -> Duration {
    start.elapsed()
}
