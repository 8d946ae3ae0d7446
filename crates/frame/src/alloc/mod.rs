//! Allocating blocks, and making room for them.

mod allocator;
mod blocks;
mod error;

pub use self::allocator::{AllocRequest, LowMemory, Place, Reserve};
pub use self::error::AllocError;
