//! What a cache tells the policy, and does for it.

use crate::words::{Ghost, Group};

/// A page that cannot be evicted now: it is dirty, being written, pinned, or somebody else works on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing, or a page that is being filled.
    Nothing,
    /// The beginning of a page of so many frames, a power of two, and the group that it belongs to.
    Page(u32, Group),
    /// Something that the policy cannot evict: the rest of a larger page, a leaf of the index, a frame of a memory space.
    Other,
}

/// What a group has, and may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many frames its pages have, at the most.
    pub nr_frames: u64,
    /// How many frames others may take.
    pub nr_spare: u64,
    /// Whether it may have clearly more; if so, and it gets more, it is filling up.
    pub is_growing: bool,
}

/// Whose pages a run evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of all groups that have more than they are guaranteed.
    All,
    /// Those of one group, which is apart.
    Only(Group),
}

/// The pages of a cache, as far as the policy has to do with them.
pub trait Pages {
    /// What a group has; asked once a run for each group but [`Group::NONE`].
    fn quota(&mut self, group: Group) -> Quota;

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
