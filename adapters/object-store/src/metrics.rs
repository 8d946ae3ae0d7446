//! Counters of the wrapper.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a [`PagewellStore`](crate::PagewellStore), shared by all its clones.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Metrics {
                Metrics { $($name: self.$name.read(),)* }
            }
        }
    };
}

counters! {
    /// Ranges that were read. Each piece of a stream counts as one.
    nr_reads,
    /// Bytes of these ranges.
    bytes_read,
    /// Requests to the store for bytes.
    nr_requests,
    /// Bytes of missing pages that were requested from the store.
    bytes_missing,
    /// Bytes of complete answers, including those between merged pages.
    bytes_fetched,
    /// Requests saved by merging.
    nr_merged,
    /// Requests that were sent a second time because the answer was late.
    nr_hedged,
    /// Failed requests for missing pages.
    nr_failed,
    /// Ranges returned without a copy.
    nr_pinned,
    /// Ranges copied only because of the limit on pinned pages.
    nr_copied_at_bound,
    /// Ranges read without the cache, because no page could be evicted.
    nr_around,
    /// Bytes of pages read from the disk tier.
    bytes_from_disk,
    /// Bytes of pages written to the disk tier.
    bytes_to_disk,
    /// Pages not stored in the disk tier because the disk was too slow.
    nr_disk_skipped,
    /// Pages of the disk tier that a read found damaged.
    nr_disk_damaged,
    /// 1 once the disk tier has read the log of its pages, so that reads find them; 0 before.
    nr_disk_loads,
    /// 1 if the disk has failed or is full, so that the tier stores no more pages; otherwise 0.
    nr_disk_failures,
    /// Objects that became known.
    nr_opened,
    /// Checks of known objects, each by up to five requests, and openings of objects with pages in
    /// the disk tier.
    nr_checked,
    /// Objects forgotten because the metadata of objects used all memory.
    nr_crowded_out,
    /// Known objects that were found replaced or deleted, were changed through the wrapper, or were
    /// forgotten by [`forget`](crate::PagewellStore::forget).
    nr_forgotten,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, nr: u64) {
        // ORDERING: Relaxed; the counter orders no other data.
        self.0.fetch_add(nr, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        // ORDERING: Relaxed; the counter orders no other data.
        self.0.load(Ordering::Relaxed)
    }
}
