//! A B+tree with a write-ahead log, in two files of a cache. `docs/guide/btree.md` explains the
//! design.
//!
//! Each module calls only the modules above it in this table:
//!
//! | module | responsibility |
//! |---|---|
//! | `error` | errors of the tree |
//! | `access` | reading bytes of a page, in place or in a copy |
//! | `node` | page format; pure functions |
//! | `descent` | optimistic descent from the root to a leaf; gets and scans |
//! | `log` | write-ahead log: records, durability, restart after a checkpoint |
//! | `record` | contents of log records, and redo |
//! | `tree` | opening and recovery, inserts, splits, checkpoints |

mod access;
mod descent;
mod error;
mod log;
mod node;
mod record;
mod tree;

pub(crate) use self::access::{Access, Bytes, Question, Views};
pub(crate) use self::descent::Reader;
pub(crate) use self::error::Error;
pub(crate) use self::node::{MAX_ENTRY, MAX_KEY, PAGE};
pub(crate) use self::tree::{Options, Tree};
