//! Allocating blocks, and making room for them.
//!
//! - Owns: in which order nodes are asked and how far down each may be emptied (`request`, `allocator`), who is told when few
//!   frames are left (`low`), joining and splitting blocks (`blocks`).
//! - Calls: `words`, `count`, `memory`, `records`, `lists`.
//! - Promises: a block that is given is the caller's alone, and aligned to its size. One that can be had is given, if need be
//!   from the front caches of other threads.

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
