//! A B+tree with a write-ahead log, on two files of a cache. `docs/guide/btree.md` goes through it.
//!
//! The modules, from the bottom up; each calls only those above it in this table:
//!
//! | module | what it owns |
//! |---|---|
//! | `error` | why a call fails |
//! | `bytes` | the bytes of a page, wherever they are |
//! | `node` | what is where in a page; pure functions |
//! | `access` | ways to look at a page: by a view, by a pin, by a read of all of it |
//! | `descent` | from the root to a leaf, with other threads changing the tree; gets and scans |
//! | `ahead` | leaves that are read in before a scan wants them |
//! | `errands` | what writers look for on their way down |
//! | `log` | records, and how far they are durable |
//! | `change` | what a record says, and doing it again |
//! | `snapshot` | the tree as it was, by copies of what is changed |
//! | `free` | which pages no node names |
//! | `tree` | opening and recovery, inserts, splits, checkpoints |
//! | `removal` | removals, and the merging of nodes that have few entries then |

mod access;
mod ahead;
mod bytes;
mod change;
mod descent;
mod errands;
mod error;
mod free;
mod log;
mod node;
mod removal;
mod snapshot;
mod tree;

pub(crate) use self::access::{Access, Pins, Question, Reads, Views};
pub(crate) use self::bytes::Bytes;
pub(crate) use self::descent::Reader;
pub(crate) use self::error::Error;
pub(crate) use self::node::{MAX_ENTRY, MAX_KEY, PAGE};
pub(crate) use self::snapshot::Snapshot;
pub(crate) use self::tree::{Options, Tree};
