//! The pool, and the handles of its frames.
//!
//! - Owns: the pool's memory and its allocator ([`FramePool`]), and the handles of frames.
//! - Guarantees: memory safety under any use of the safe functions. A handle keeps its block
//!   allocated. When dropped, it frees the block or puts its reference.

mod allocate;
mod frame_pool;
mod handle;
mod hold;
mod owned;
mod range;
mod view;

#[cfg(test)]
mod tests;

pub use self::frame_pool::FramePool;
pub use self::handle::{FrameRef, TryGetFrame, UniqueFrame};
pub use self::hold::{Hold, Protected};
pub use self::owned::{HasPool, OwnedHold, PoolOwner};
pub use self::range::{FrameRange, FreeRange};
pub use self::view::FrameView;
