//! Page frames of 4 KiB, each with a metadata record and a reference count, and their allocator.
//!
//! A module depends only on modules above it in this table.
//!
//! | module | content |
//! |---|---|
//! | `view` | reads of a page in place, validated afterwards ([`PageView`]) |
//! | `words` | frame numbers, orders; reference words ([`refword`]) and kind words |
//! | `count` | reference counts in two schemes ([`refcount`]) |
//! | `memory` | configuration, NUMA nodes of the machine ([`numa`]), memory of the frames |
//! | `records` | metadata record of a frame |
//! | `lists` | buddy allocators, transfer caches and thread caches; freeing, statistics |
//! | `announce` | hazards: references that are published instead of counted |
//! | `alloc` | allocation of blocks by node; assembly of a block from its parts |
//! | `pool` | [`FramePool`], and the handles [`UniqueFrame`], [`FrameRef`], [`FrameRange`] |
//!
//! # Life of a frame
//!
//! 1. Free: in a thread cache, or in its node's buddy allocator or transfer cache. The lock bit of
//!    its count is set, so a late `try_get` fails.
//! 2. Allocated: one [`UniqueFrame`] names it, whose holder writes the bytes and the record. The
//!    lock bit is still set.
//! 3. Published: storing the count clears the lock bit. A thread that finds the frame may acquire a
//!    reference ([`FramePool::try_get`]). The last reference dropped frees the frame. A split block
//!    is a range of frames with one reference each.
//! 4. Frozen: a thread has set the lock bit, by a compare-and-swap from the expected count, and
//!    owns the frame as a [`UniqueFrame`] again.

#![deny(unsafe_code)]

mod alloc;
mod announce;
mod count;
mod lists;
mod memory;
mod pool;
mod records;
mod view;
mod words;

pub use alloc::{AllocError, AllocRequest, Place};
pub use count::refcount;
pub use lists::{FreeBlocks, PoolStats};
pub use memory::{HugePages, Nodes, PoolConfig, PoolError, numa};
pub use pool::{
    FramePool, FrameRange, FrameRef, FrameView, FreeRange, HasPool, Hold, OwnedHold, PoolOwner,
    Protected, TryGetFrame, UniqueFrame,
};
pub use records::FrameMeta;
pub use view::{PageView, Torn, ViewOutcome, WatchedWords, attempt_view};
pub use words::{
    FRAME_BYTES, FRAME_NR_BITS, FRAME_SHIFT, FRAME_WORDS, FrameKind, FrameNr, MAX_FRAMES,
    MAX_NODES, Order, refword,
};
