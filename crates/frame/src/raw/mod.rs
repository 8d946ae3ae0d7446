//! Blocks and ranges that are owned by their numbers, and giving them back.
//!
//! - Owns: the protocol of giving up a raw block (`give_up`), the walk that frees a contiguous range by the block (`range`),
//!   and what is said of misuse (`error`).
//! - Calls: `words`, `count`, `records`, `lists`.
//! - Promises: what is wrong is an error that changes nothing, and nobody else's reference is ever dropped. Each frame is freed
//!   once, by the last who holds it.

mod error;
mod give_up;
mod range;

pub use self::error::{FreeError, Misuse};
pub use self::give_up::Freed;
pub(crate) use self::give_up::{free, split, split_locked};
pub use self::range::FreeRange;
pub(crate) use self::range::free_contig_range;
