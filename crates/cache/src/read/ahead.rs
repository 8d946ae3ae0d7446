//! Readahead: how many pages to read when one is missing.
//!
//! A handle that misses the page right after the last one that it read in is reading in sequence; it
//! reads twice as many pages each time, up to [`MOST_BYTES`]. Any other miss reads what was asked
//! for. The state is a hint, of the handle, and touched by misses only.

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::base::page::PageNr;

/// The most that is read ahead, in bytes.
const MOST_BYTES: usize = 128 << 10;

/// Where a handle's sequence is.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// The page after the last that was read in.
    next: AtomicU64,
    /// How many pages were read in last.
    window: AtomicU64,
    /// The most pages to read in.
    most: u64,
}

impl Sequence {
    /// A handle that has read nothing, of a file with this page size in a pool of `nr_frames`.
    pub(crate) fn new(page_size: usize, nr_frames: usize) -> Self {
        // Reading ahead must not push out what the reader is about to come to: a sixteenth of the pool.
        let pool = nr_frames * pagewell_frame::FRAME_BYTES / 16;
        Self {
            next: AtomicU64::new(u64::MAX),
            window: AtomicU64::new(1),
            most: (MOST_BYTES.min(pool) / page_size).max(1) as u64,
        }
    }

    /// How many pages to read, from the missing `page` on, when the read itself wants `wanted` of them.
    pub(crate) fn on_miss(&self, page: PageNr, wanted: usize) -> usize {
        // ORDERING: Relaxed, all of them; a hint. Threads that share a handle may garble it, and read a
        // little more or less than they might.
        let wanted = wanted as u64;
        let window = if page == self.next.load(Ordering::Relaxed) {
            (self.window.load(Ordering::Relaxed) * 2).clamp(1, self.most)
        } else {
            1
        };
        let pages = wanted.max(window).min(self.most.max(wanted));
        self.window.store(pages.min(self.most), Ordering::Relaxed);
        self.next
            .store(page.saturating_add(pages), Ordering::Relaxed);
        pages as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_doubles_up_to_the_limit_and_a_jump_starts_over() {
        let sequence = Sequence::new(4096, 1 << 20);
        let mut page = 10;
        for expected in [1, 2, 4, 8, 16, 32, 32] {
            let pages = sequence.on_miss(page, 1);
            assert_eq!(pages, expected);
            page += pages as u64;
        }
        assert_eq!(sequence.on_miss(page + 1, 1), 1);
        assert_eq!(sequence.on_miss(page + 2, 1), 2);
    }

    #[test]
    fn a_read_gets_what_it_wants_however_much() {
        let sequence = Sequence::new(65536, 64);
        assert_eq!(sequence.on_miss(0, 500), 500);
        assert_eq!(sequence.on_miss(3, 1), 1);
        assert_eq!(sequence.on_miss(u64::MAX - 1, 7), 7);
    }
}
