//! Frame numbers, and the words of a frame with their values and every legal transition.
//!
//! Guarantees: all functions are pure, and tests cover all values around their boundaries.

mod geometry;
pub(crate) mod kind;
pub mod refword;

pub(crate) use self::geometry::blocks_of;
pub use self::geometry::{
    FRAME_BYTES, FRAME_NR_BITS, FRAME_SHIFT, FRAME_WORDS, FrameNr, MAX_FRAMES, MAX_NODES, Order,
};
pub use self::kind::FrameKind;
