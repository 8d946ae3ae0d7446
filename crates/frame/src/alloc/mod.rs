//! Allocating blocks, and making room for them.
//!
//! - Owns: the order in which nodes are asked (`request`, `allocator`), joining and splitting blocks (`blocks`).
//! - Calls: `words`, `count`, `memory`, `records`, `lists`.
//! - Promises: an allocated block belongs to the caller alone, and is aligned to its size. If there is a block anywhere, it is
//!   found, even in the front caches of other threads.

mod allocator;
pub(crate) mod blocks;
mod error;
mod request;

pub(crate) use self::allocator::Allocator;
#[cfg(all(test, not(loom)))]
pub(crate) use self::allocator::testing;
pub use self::error::AllocError;
pub use self::request::{AllocRequest, Place};
