//! Metadata records of a pool's frames, in one array.
//!
//! A frame number, however stale, names a readable record.

mod meta;

pub use self::meta::FrameMeta;
pub(crate) use self::meta::{CLOSED, MetaTable, NIL, NONE, ON, new_table, of};
