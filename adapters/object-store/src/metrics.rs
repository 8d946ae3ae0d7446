//! What the wrapper has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a [`PagewellStore`](crate::PagewellStore) has done since it was made; all of its clones count together.
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
    /// Ranges that were asked for, streams by their pieces.
    nr_reads,
    /// Bytes of these.
    bytes_read,
    /// Requests for bytes that were made to the store.
    nr_requests,
    /// Bytes of missing pages, which these were for.
    bytes_missing,
    /// Bytes that came, those between merged requests included.
    bytes_fetched,
    /// Requests that were saved, since others went for their bytes too.
    nr_merged,
    /// Requests that were made a second time, since the first was late.
    nr_hedged,
    /// Requests that failed.
    nr_failed,
    /// Ranges that were given without a copy.
    nr_pinned,
    /// Ranges that would have been, but for the bound of what may be pinned at once.
    nr_copied_at_bound,
    /// Ranges that were read past the cache, since nothing in it could be evicted.
    nr_around,
    /// Bytes of pages that came from the tier on the disk.
    bytes_from_disk,
    /// Bytes of pages that were written to it.
    bytes_to_disk,
    /// Pages that were not kept there, since the disk did not keep up.
    nr_disk_skipped,
    /// Pages there that were not what was kept.
    nr_disk_damaged,
    /// 1 if the disk has failed, or is full: nothing more is kept there.
    nr_disk_failures,
    /// Objects that became known.
    nr_opened,
    /// Questions whether a known object is still the same.
    nr_checked,
    /// Objects that were forgotten since what is known of objects took all of the memory.
    nr_crowded_out,
    /// Objects that were found to be others, or gone, or were changed through the wrapper.
    nr_forgotten,
}

/// A number that is only ever added to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, nr: u64) {
        // ORDERING: Relaxed; a number by itself.
        self.0.fetch_add(nr, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        // ORDERING: Relaxed; a number by itself.
        self.0.load(Ordering::Relaxed)
    }
}
