//! Metadata records of a pool's frames, in one array.
//!
//! - Owns: the record (`meta`), its hazard protection (`mark`), the rules for access to each field.
//! - Guarantees: a frame number, however stale, names a readable record.

mod mark;
mod meta;

pub(crate) use self::mark::{CLOSED, NONE, ON};
pub use self::meta::FrameMeta;
pub(crate) use self::meta::{MetaTable, NIL, new_table, of};
