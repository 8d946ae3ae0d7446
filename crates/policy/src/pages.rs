//! Interface between the policy and a cache.

use crate::words::Ghost;

/// Error of a page that cannot be evicted now: it is dirty, being written, pinned, or in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No page, or a page that is being filled.
    Nothing,
    /// The frame is the first frame of a page that has this number of frames, a power of two.
    Page(u32),
    /// Other content, not evictable: a later frame of a page, an index leaf, a frame of a space.
    Other,
}

/// Cache whose pages the policy evicts.
pub trait Pages {
    /// Returns the content of `frame`: a hint, since the cache loads it without a claim.
    fn content(&mut self, frame: u32) -> Content;

    /// Clears the accessed bit of the page in `frame`, and returns its previous value.
    fn take_mark(&mut self, frame: u32) -> bool;

    /// Evicts the page in `frame`, and leaves `ghost` where a later fill of the page finds it.
    /// Fails with [`Stays`] if the page cannot be evicted now.
    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays>;

    /// Prefetches data for the next calls for this frame. Called with `level` 0, 1 and 2 in turn:
    /// level 0 is found by the frame's number, each other by the data of the previous level.
    fn prefetch(&mut self, frame: u32, level: u8);
}
