//! What a cache tells the policy, and does for it.

use crate::words::Ghost;

/// A page that cannot be evicted now: it is dirty, being written, pinned, or somebody else works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing, or a page that is being filled.
    Nothing,
    /// The first frame of a page; the number of its frames, a power of two.
    Page(u32),
    /// Something that the policy cannot evict: the rest of a larger page, a leaf of the index, a frame of a memory space.
    Other,
}

/// The pages of a cache, as far as the policy has to do with them.
pub trait Pages {
    /// What is in `frame`, as far as can be said without a claim: a hint.
    fn content(&mut self, frame: u32) -> Content;

    /// Takes the referenced mark off the page in `frame`; whether it was on.
    fn take_mark(&mut self, frame: u32) -> bool;

    /// Evicts the page in `frame`, and leaves the ghost where the page will be looked for.
    ///
    /// # Errors
    ///
    /// When it stays.
    fn evict(&mut self, frame: u32, ghost: Ghost) -> Result<(), Stays>;

    /// Begins to load what the next calls for this frame will read. `level` 0 comes first, and is what `frame` leads to at once;
    /// 1 and 2 are what the one before leads to.
    fn prefetch(&mut self, frame: u32, level: u8);
}
