//! Reserve of a file with a page codec: memory for encoded pages in flight to the backend.
//!
//! The reserve is allocated and charged to the budget when the file is opened, so writeback, which
//! frees memory, needs no free memory. Each file has its own, so no file waits for the backend or
//! codec of another.
//!
//! Protocol. Only the holder of the file's writeback lock takes a chunk ([`Reserve::take`]) for a
//! page range, which keeps it until its write completes or is abandoned. If no chunk is free, all
//! are in this thread's requests in flight, for which it waits. So no thread sleeps in this module.

use pagewell_io::Aligned;
use pagewell_sync::{Mutex, lock};

/// Maximum number of bytes of a file's reserve.
const MOST: usize = 1 << 20;

/// Number of chunks, and so of concurrent requests, if the reserve has the maximum size.
const NR_CHUNKS: usize = 8;

/// Divisor of the cache's memory: maximum size of one file's reserve, if that is at least a page.
const SHARE: usize = 64;

#[derive(Debug)]
pub(crate) struct Reserve {
    free: Mutex<Vec<Aligned>>,
    nr_pages: usize,
    nr_bytes: usize,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Chunk<'w> {
    memory: Option<Aligned>,
    reserve: &'w Reserve,
}

impl Reserve {
    /// Allocates at least one page of `page_size` bytes. The cache has `cache_bytes` bytes.
    pub(crate) fn new(page_size: usize, cache_bytes: usize) -> Self {
        let (nr_chunks, nr_pages) = Self::shape(page_size, cache_bytes);
        let free: Vec<Aligned> = (0..nr_chunks)
            .map(|_| Aligned::new(nr_pages * page_size, Aligned::MOST_UNIT))
            .collect();
        Self {
            nr_bytes: free.iter().map(Aligned::nr_bytes).sum(),
            free: Mutex::new(free),
            nr_pages,
        }
    }

    fn shape(page_size: usize, cache_bytes: usize) -> (usize, usize) {
        let all_pages = (MOST.min(cache_bytes / SHARE) / page_size).max(1);
        let nr_pages = (all_pages / NR_CHUNKS).max(1);
        (all_pages / nr_pages, nr_pages)
    }

    pub(crate) fn nr_bytes(&self) -> usize {
        self.nr_bytes
    }

    pub(crate) fn most_pages(&self) -> usize {
        self.nr_pages
    }

    pub(crate) fn is_used_up(&self) -> bool {
        lock(&self.free).is_empty()
    }

    /// Returns `None` if all chunks are in use. The caller holds the writeback lock.
    pub(crate) fn take(&self) -> Option<Chunk<'_>> {
        let memory = lock(&self.free).pop()?;
        Some(Chunk {
            memory: Some(memory),
            reserve: self,
        })
    }
}

impl Chunk<'_> {
    pub(crate) fn memory(&self) -> Option<&Aligned> {
        self.memory.as_ref()
    }

    /// The caller must have no request in flight with the memory.
    pub(crate) fn memory_mut(&mut self) -> Option<&mut Aligned> {
        self.memory.as_mut()
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // The vector has capacity, since the chunk was taken from it.
            lock(&self.reserve.free).push(memory);
        }
    }
}

#[cfg(test)]
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
