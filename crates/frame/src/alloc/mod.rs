//! Allocation and assembly of blocks.
//!
//! - Owns: the search order of nodes (`request`, `allocator`), joining and splitting (`blocks`).
//! - Guarantees: an allocated block belongs to the caller, and is aligned to its size. A free block
//!   is found even in the caches of other threads.

mod allocator;
pub(crate) mod blocks;
mod error;
mod request;

pub(crate) use self::allocator::Allocator;
#[cfg(all(test, not(loom)))]
pub(crate) use self::allocator::testing;
pub use self::error::AllocError;
pub use self::request::{AllocRequest, Place};
