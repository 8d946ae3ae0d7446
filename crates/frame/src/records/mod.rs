//! Metadata records of a pool's frames, in one array.
//!
//! A frame number, however stale, names a readable record.

mod mark;
mod meta;

pub(crate) use self::mark::{CLOSED, NONE, ON};
pub use self::meta::FrameMeta;
pub(crate) use self::meta::{MetaTable, NIL, new_table, of};
