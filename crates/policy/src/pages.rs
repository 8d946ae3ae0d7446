//! Interface between the policy and a cache.

use crate::words::Ghost;

/// Error of a page that cannot be evicted now: it is dirty, being written, pinned, or otherwise in
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing, or a page that is being filled.
    Nothing,
    /// First frame of a page; with the page's number of frames, a power of two.
    Page(u32),
    /// Not evictable by the policy: the rest of a page, an index leaf, a frame of a memory space.
    Other,
}

/// Cache whose pages the policy evicts.
pub trait Pages {
    /// Content of `frame`, read without a claim: a hint.
    fn content(&mut self, frame: u32) -> Content;

    /// Clears the accessed bit of the page in `frame`, and returns its previous value.
    fn take_mark(&mut self, frame: u32) -> bool;

    /// Evicts the page in `frame`, and leaves `ghost` where a lookup of the page finds it.
    ///
    /// # Errors
    ///
    /// [`Stays`] if the page cannot be evicted now.
    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays>;

    /// Prefetches data that the next calls for this frame will read. `level` 0 comes first, and is
    /// what `frame` refers to directly; levels 1 and 2 are what the previous level refers to.
    fn prefetch(&mut self, frame: u32, level: u8);
}
