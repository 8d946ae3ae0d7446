//! Page frames: memory in frames of 4 KiB, a metadata record and a reference count for each, and the
//! pool that allocates them.
//!
//! | module | what |
//! |---|---|
//! | [`refword`], [`refcount`] | the reference word (pure), and its atomic shell in two schemes |
//! | `kind`, `meta` | the typed word (pure), and the metadata record of a frame |
//! | `memory`, `numa`, `config` | the memory behind the frames, the nodes of the machine, the set-up |
//! | `buddy`, `depot`, `front` | the allocator of one node, what is passed on unmerged, the front caches before it |
//! | `pool` | [`FramePool`]: all of it together |
//! | `alloc`, `free` | allocating blocks, in bulk, by node and watermark; freeing them |
//! | `raw`, `range` | blocks owned by number, and contiguous ranges freed by the block |
//! | `blocks` | making room for a block out of its parts |
//! | `poison`, `account` | frames whose memory is bad; where all frames are |
//! | `handle` | [`UniqueFrame`] and [`FrameRef`]: what the holder of a frame has in hand |
//!
//! # The life of a frame
//!
//! 1. Free: on a list of its node's buddy allocator or in a front cache. The lock bit of its count is
//!    set, so that a late `try_get` fails.
//! 2. Allocated: named by one [`UniqueFrame`]. The lock bit is still set: the holder writes the
//!    frame's bytes and its record, and nobody can take a reference.
//! 3. Published: the count is stored and with it the lock bit cleared. From now on anyone who finds
//!    the frame may take a reference ([`FramePool::try_get`]), and whoever drops the last one frees
//!    the frame, be it the owner or a passer-by.
//!    A block can also be owned by its number, and be split into single frames, each with a reference of
//!    its own; a contiguous range of these is freed in one walk, as the largest blocks that fit.
//! 4. Frozen: whoever wants the frame back while others may look for it sets the lock bit with one
//!    compare-and-swap from the expected count, which makes the frame a [`UniqueFrame`] again.

#![deny(unsafe_code)]

mod alloc;
mod count;
mod lists;
mod memory;
mod pool;
mod raw;
mod records;
mod words;

pub use alloc::{AllocError, AllocRequest, LowMemory, Place, Reserve};
pub use count::refcount;
pub use lists::{FreeBlocks, Poisoned, PoolStats};
pub use memory::{HugePages, Nodes, PoolConfig, PoolError, Watermarks, numa};
pub use pool::{FramePool, FrameRef, FrameView, TryGetFrame, UniqueFrame};
pub use raw::{FrameRange, FreeError, FreeRange, Freed, Misuse};
pub use records::FrameMeta;
pub use words::{
    FRAME_BYTES, FRAME_NR_BITS, FRAME_SHIFT, FRAME_WORDS, FrameKind, FrameNr, MAX_FRAMES,
    MAX_NODES, Order, refword,
};
