//! Blocks and ranges that are owned by their numbers, and giving them back.

mod error;
mod give_up;
mod range;

pub use self::error::{FreeError, Misuse};
pub use self::give_up::Freed;
pub use self::range::{FrameRange, FreeRange};
