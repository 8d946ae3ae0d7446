//! The words of a frame, and its number: what each value means, and every legal transition.
//!
//! - Owns: sizes, frame numbers and orders (`geometry`); the layout of the reference word ([`refword`]) and of the typed
//!   word (`kind`).
//! - Calls: nothing.
//! - Promises: everything here is pure, and tested exhaustively beside its boundaries.

mod geometry;
pub(crate) mod kind;
pub mod refword;

pub(crate) use self::geometry::blocks_of;
pub use self::geometry::{
    FRAME_BYTES, FRAME_NR_BITS, FRAME_SHIFT, FRAME_WORDS, FrameNr, MAX_FRAMES, MAX_NODES, Order,
};
pub use self::kind::FrameKind;
