//! The pool, and what the holder of a frame has in hand.

mod frame_pool;
mod handle;
mod view;

pub use self::frame_pool::FramePool;
pub use self::handle::{FrameRef, TryGetFrame, UniqueFrame};
pub use self::view::FrameView;
