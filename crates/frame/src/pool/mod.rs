//! The pool, and the handles of its frames.
//!
//! - Owns: the pool's memory and its allocator ([`FramePool`]), the handles that borrow from it.
//! - Calls: all other rooms.
//! - Promises: memory safety under any use of the safe functions. A handle keeps its block allocated, and gives it back when it
//!   is dropped.
//!
//! | file | what |
//! |---|---|
//! | `frame_pool` | [`FramePool`]: its parts, and the operations by the numbers of frames |
//! | `handle` | [`UniqueFrame`] and [`FrameRef`]: a block that belongs to the holder alone, and one reference among others |
//! | `hold` | [`Hold`]: a reference that is counted, or announced |
//! | `owned` | [`OwnedHold`]: the same, for holders that borrow nothing; [`PoolOwner`] |
//! | `range` | [`FrameRange`]: contiguous frames, and freeing them by the block |
//! | `allocate` | blocks and references that the pool hands out as handles, and takes back |
//! | `view` | [`FrameView`]: the pool's memory as the hit path sees it |

mod allocate;
mod frame_pool;
mod handle;
mod hold;
mod owned;
mod range;
mod view;

#[cfg(all(test, not(loom)))]
mod tests;

pub use self::frame_pool::FramePool;
pub use self::handle::{FrameRef, TryGetFrame, UniqueFrame};
pub use self::hold::Hold;
pub use self::owned::{HasPool, OwnedHold, PoolOwner};
pub use self::range::{FrameRange, FreeRange};
pub use self::view::FrameView;
