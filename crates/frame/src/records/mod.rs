//! The records of a pool's frames: one for each, in one array.
//!
//! - Owns: the metadata record (`meta`) with its mark (`mark`), and which thread may touch which field when.
//! - Calls: `words`, `count`.
//! - Promises: a frame number, however stale, always names a readable record; two hot frames never share a cache line.

mod mark;
mod meta;

pub(crate) use self::mark::{CLOSED, NONE, ON};
pub use self::meta::FrameMeta;
pub(crate) use self::meta::{MetaTable, NIL, new_table, of};
