//! Allocation and assembly of blocks.
//!
//! Guarantees: an allocated block belongs to the caller, and is aligned to its size. If the
//! caller's cache and the nodes have no block, an allocation searches the caches of other threads.

mod allocator;
pub(crate) mod blocks;

#[cfg(test)]
pub(crate) use self::allocator::testing;
pub use self::allocator::{AllocError, AllocRequest, Place};
