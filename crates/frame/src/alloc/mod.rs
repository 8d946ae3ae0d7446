//! Allocating blocks, and making room for them.
//!
//! - Owns: the order in which nodes are asked and how far down each may be emptied (`request`, `allocator`), the callbacks for
//!   nodes with few frames left (`low`), joining and splitting blocks (`blocks`).
//! - Calls: `words`, `count`, `memory`, `records`, `lists`.
//! - Promises: an allocated block belongs to the caller alone, and is aligned to its size. If there is a block anywhere, it is
//!   found, even in the front caches of other threads.

mod allocator;
pub(crate) mod blocks;
mod error;
mod low;
mod request;

pub(crate) use self::allocator::Allocator;
#[cfg(all(test, not(loom)))]
pub(crate) use self::allocator::testing;
pub use self::error::AllocError;
pub use self::low::LowMemory;
pub use self::request::{AllocRequest, Place, Reserve};
