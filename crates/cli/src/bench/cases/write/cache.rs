//! The caches that files are written through.

use pagewell::refcount::LockBit;
use pagewell::{Cache, HugePages};

use crate::bench::plan::Settings;
use crate::failure::{Failure, chain};

/// A cache of so many bytes, with the pages that the settings ask for.
pub(super) fn new_cache(capacity: u64, settings: &Settings) -> Result<Cache<LockBit>, Failure> {
    Cache::builder()
        .capacity(capacity)
        .page_size(settings.page_size)
        .huge_pages(if settings.huge_pages {
            HugePages::Advise
        } else {
            HugePages::Never
        })
        .build()
        .map_err(|error| Failure::because("cannot make a cache", chain(&error)))
}
