//! Page frames: memory in frames of 4 KiB, a metadata record and a reference count for each, and the
//! pool that allocates them.
//!
//! A room names only rooms above it in this table. Its head says what it owns, what it calls and what it promises.
//!
//! | room | what |
//! |---|---|
//! | `words` | frame numbers and orders; the layouts of the reference word ([`refword`]) and of the typed word (pure) |
//! | `count` | the reference count in two schemes: the atomic shell around the reference word ([`refcount`]) |
//! | `memory` | the set-up, the NUMA nodes of the machine ([`numa`]), the memory behind the frames |
//! | `records` | the metadata record of a frame |
//! | `lists` | free frames: buddy allocators and depots of the nodes, front caches of the threads; freeing, counting |
//! | `announce` | references that are announced instead of counted: marks, slots of the threads, looks |
//! | `alloc` | allocating blocks, by node; making room for a block out of its parts |
//! | `pool` | [`FramePool`]: all of it together; [`UniqueFrame`], [`FrameRef`] and [`FrameRange`]: the handles of frames |
//!
//! # The life of a frame
//!
//! 1. Free: on a list of its node's buddy allocator or in a front cache. The lock bit of its count is
//!    set, so a late `try_get` fails.
//! 2. Allocated: named by one [`UniqueFrame`]. The lock bit is still set: the holder writes the
//!    frame's bytes and its record, and nobody can take a reference.
//! 3. Published: storing the count clears the lock bit. From now on any thread that finds
//!    the frame may take a reference ([`FramePool::try_get`]), and the thread that drops the last one frees
//!    the frame, be it the owner or a passer-by.
//!    A block can also be split into single frames, each with a reference of its own; a contiguous range of
//!    these is freed in one walk, as the largest blocks that fit.
//! 4. Frozen: a thread that wants the frame back while others may look for it sets the lock bit with one
//!    compare-and-swap from the expected count, which makes the frame a [`UniqueFrame`] again.

#![deny(unsafe_code)]

mod alloc;
mod announce;
mod count;
mod lists;
mod memory;
mod pool;
mod records;
mod words;

pub use alloc::{AllocError, AllocRequest, Place};
pub use count::refcount;
pub use lists::{FreeBlocks, PoolStats};
pub use memory::{HugePages, Nodes, PoolConfig, PoolError, numa};
pub use pool::{
    FramePool, FrameRange, FrameRef, FrameView, FreeRange, HasPool, Hold, OwnedHold, PoolOwner,
    TryGetFrame, UniqueFrame,
};
pub use records::FrameMeta;
pub use words::{
    FRAME_BYTES, FRAME_NR_BITS, FRAME_SHIFT, FRAME_WORDS, FrameKind, FrameNr, MAX_FRAMES,
    MAX_NODES, Order, refword,
};
