//! The reserve of a file with hooks on its bytes: memory in which pages are changed on their way to the storage.
//!
//! It is found when the file is opened, and charged to the cache's budget, so that writing back takes no memory when there is none: that is what makes some
//! free. Each file has its own. So no file waits for another's storage, or hook, to give memory back.
//!
//! Protocol. Only the holder of the file's writeback lock takes a chunk ([`Reserve::take`]), one for a run of pages, and the run has it until it is done, or
//! given up. If there is none, the same thread has all of them in requests under way, and waits for these; so nobody sleeps here, and no wake-up can be missed.

use pagewell_sync::{Mutex, lock};

use crate::base::aligned::Aligned;

/// The most bytes of a file's reserve.
const MOST: usize = 1 << 20;

/// How many requests it is for, if it is as large as that.
const NR_CHUNKS: usize = 8;

/// The share of the cache's memory that one file's reserve may be.
const SHARE: usize = 64;

/// Memory for pages on their way.
#[derive(Debug)]
pub(crate) struct Reserve {
    free: Mutex<Vec<Aligned>>,
    /// How many pages a chunk has.
    nr_pages: usize,
    nr_bytes: usize,
}

/// A part of the reserve, taken.
#[derive(Debug)]
#[must_use]
pub(crate) struct Chunk<'w> {
    /// None when it is given back.
    memory: Option<Aligned>,
    reserve: &'w Reserve,
}

impl Reserve {
    /// For a file with pages of `page_size` bytes, in a cache of so many bytes: one page at least.
    pub(crate) fn new(page_size: usize, cache_bytes: usize) -> Self {
        let (nr_chunks, nr_pages) = Self::shape(page_size, cache_bytes);
        let free: Vec<Aligned> = (0..nr_chunks)
            .map(|_| Aligned::new(nr_pages * page_size))
            .collect();
        Self {
            nr_bytes: free.iter().map(Aligned::nr_bytes).sum(),
            free: Mutex::new(free),
            nr_pages,
        }
    }

    /// How many chunks, and of how many pages.
    fn shape(page_size: usize, cache_bytes: usize) -> (usize, usize) {
        let all_pages = (MOST.min(cache_bytes / SHARE) / page_size).max(1);
        let nr_pages = (all_pages / NR_CHUNKS).max(1);
        (all_pages / nr_pages, nr_pages)
    }

    /// How many bytes it takes in all.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.nr_bytes
    }

    /// The most pages that go out together.
    pub(crate) fn most_pages(&self) -> usize {
        self.nr_pages
    }

    /// Whether all chunks are taken.
    pub(crate) fn is_used_up(&self) -> bool {
        lock(&self.free).is_empty()
    }

    /// A chunk, if not all of them are taken. The writeback lock is held.
    pub(crate) fn take(&self) -> Option<Chunk<'_>> {
        let memory = lock(&self.free).pop()?;
        Some(Chunk {
            memory: Some(memory),
            reserve: self,
        })
    }
}

impl Chunk<'_> {
    /// Its memory.
    pub(crate) fn memory(&self) -> Option<&Aligned> {
        self.memory.as_ref()
    }

    /// Its memory, to be changed. No request has it.
    #[cfg(not(loom))]
    pub(crate) fn memory_mut(&mut self) -> Option<&mut Aligned> {
        self.memory.as_mut()
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // There is room: it came from here.
            lock(&self.reserve.free).push(memory);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_page_at_least_and_eight_requests_at_best() {
        for (page_size, cache_bytes, shape) in [
            (4096, 16 * 4096, (1, 1)),
            (65536, 16 * 4096, (1, 1)),
            (4096, 1 << 20, (4, 1)),
            (4096, 16 << 20, (8, 8)),
            (4096, 64 << 20, (8, 32)),
            (4096, 1 << 40, (8, 32)),
            (65536, 1 << 40, (8, 2)),
        ] {
            assert_eq!(Reserve::shape(page_size, cache_bytes), shape);
        }
    }

    #[test]
    fn what_is_taken_comes_back() {
        let reserve = Reserve::new(4096, 16 << 20);
        let taken: Vec<Chunk<'_>> = std::iter::from_fn(|| reserve.take()).collect();
        assert_eq!(taken.len(), 8);
        drop(taken);
        for _ in 0..20 {
            assert!(reserve.take().is_some());
        }
        assert!(reserve.nr_bytes() >= 1 << 18);
    }
}
