//! What a migration is asked to do, and what came of it.

use std::time::{Duration, Instant};

/// How pages are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Page by page; the second walk goes through all areas that may map the page. The baseline.
    FullWalk,
    /// Page by page; the second walk ends with the last migration entry.
    EarlyStop,
    /// Many pages by one walk; those that are mapped once by none, each under the claim of its entry.
    #[default]
    Batched,
}

impl Engine {
    /// How many pages are moved at once.
    pub(crate) fn batch(self) -> usize {
        match self {
            Self::FullWalk | Self::EarlyStop => 1,
            Self::Batched => 64,
        }
    }
}

/// Why a page was not moved. It is where it was, and nothing about it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotMoved {
    /// The node has no frame for it.
    NodeFull,
    /// Somebody has it pinned.
    Pinned,
    /// Somebody else is moving it.
    InMigration,
    /// It is mapped by more entries than can be counted while it is being moved: 2^24 - 1.
    TooManyEntries,
    /// Entries of it were being copied or moved all the while, and could not all be found.
    StillMapped,
}

/// What came of a migration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Migrated {
    /// How many pages were moved.
    pub nr_moved: usize,
    /// How many pages were on the node already.
    pub nr_there: usize,
    /// The pages that were not moved, by address, and why.
    pub not_moved: Vec<(u64, NotMoved)>,
    /// How long it took to find the pages, and to move those that are mapped once ([`Engine::Batched`]); and the first
    /// walks.
    pub first_walk: Duration,
    /// How long the copies took, of the pages that walks were made for.
    pub copy: Duration,
    /// How long the second walks took.
    pub second_walk: Duration,
}

/// The time, for the report.
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn since(start: Instant) -> Duration {
    start.elapsed()
}
