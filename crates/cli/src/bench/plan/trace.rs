//! How much is read in `bench eviction`, and of what by how large a cache.

use pagewell_frame::FRAME_BYTES;

use super::case::Case;
use super::settings::Settings;

/// The size of a workload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::bench) struct Trace {
    pub(in crate::bench) nr_requests: usize,
    /// Pages that the requests choose from; of a tree, its leaves.
    pub(in crate::bench) nr_pages: u32,
    pub(in crate::bench) nr_frames: usize,
}

impl Trace {
    /// The frames are what 64 MiB are with a record of 64 bytes for each.
    const FULL: Trace = Trace {
        nr_requests: 3_000_000,
        nr_pages: 256 << 10,
        nr_frames: 16_131,
    };
    /// A tenth of the pages, and a thirtieth of the reads.
    const QUICK: Trace = Trace {
        nr_requests: 100_000,
        nr_pages: 26_214,
        nr_frames: 1613,
    };

    pub(in crate::bench) fn of(settings: &Settings) -> Trace {
        if settings.quick {
            Trace::QUICK
        } else {
            Trace::FULL
        }
    }

    /// Bytes of the pages that the requests of a case choose from. A tree has inner pages besides.
    pub(in crate::bench) fn file_bytes(&self, case: Case) -> u64 {
        let nr_pages = match case {
            Case::Loop => 2 * self.nr_frames as u64,
            _ => u64::from(self.nr_pages),
        };
        nr_pages * FRAME_BYTES as u64
    }
}
