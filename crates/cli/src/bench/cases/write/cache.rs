//! The caches that files are written through.

use pagewell::{Cache, HugePages};

use crate::bench::plan::Settings;
use crate::failure::{Failure, chain};

/// How much of a cache may be dirty.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dirty {
    /// As much as the cache allows by default.
    Default,
    /// About as much as it allows at all: nearly three quarters of it, and half of that in one file.
    Most,
}

/// A cache of so many bytes, with the pages that the settings ask for.
pub(super) fn new_cache(
    capacity: u64,
    dirty: Dirty,
    settings: &Settings,
) -> Result<Cache, Failure> {
    let builder = Cache::builder().capacity(capacity);
    let builder = match dirty {
        Dirty::Default => builder,
        Dirty::Most => builder.dirty_limit(capacity / 100 * 72),
    };
    builder
        .page_size(settings.page_size)
        .huge_pages(if settings.huge_pages {
            HugePages::Advise
        } else {
            HugePages::Never
        })
        .build()
        .map_err(|error| Failure::because("cannot make a cache", chain(&error)))
}

/// Capacity of a cache that can hold `written` bytes of dirty pages, perhaps all of one file, which
/// may have a third of the cache ([`Dirty::Most`]).
pub(super) fn capacity_for(written: u64) -> u64 {
    const RECORDS_BYTES: u64 = 32 << 20;
    written.saturating_mul(3).saturating_add(RECORDS_BYTES)
}
