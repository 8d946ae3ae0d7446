//! Random histories of a file over losses of power, and what must survive them.
//!
//! For the tests of the facade and for `pagewell crash-test`, which run the same histories against the
//! same checks. Unlike the testkit it uses the library that it tests, and only what users see of it.
//!
//! | module | what |
//! |---|---|
//! | [`history`] | what is done to a file, step by step, as data: from a seed, and made shorter |
//! | [`run`](mod@run) | does it, on a cache and a device that loses what was not synced |
//! | `program` | a program that has the file open, and its death |
//! | [`model`] | what the file holds, and may hold after a loss of power or of the process |
//! | [`log`] | a write-ahead log beside the file, whose order is checked too |
//! | [`plug`] | a backend whose program may die |
//! | [`script`] | a backend of which each call may be made to fail |
//! | [`block`](mod@block) | blocks that say which version they are |
//!
//! Proved by: `--break` of the command and the tests beside it: with a sync that does nothing, or a log
//! that is not synced first, the same histories must fail.

#![forbid(unsafe_code)]

pub mod block;
pub mod history;
pub mod log;
pub mod model;
pub mod plug;
mod program;
pub mod run;
pub mod script;

pub use block::{BLOCK, Block, block};
pub use history::{History, Step};
pub use model::Model;
pub use program::stored;
pub use run::{Broken, Tally, run};
pub use script::{EIO, ENOSPC, Script, Way, errno};

/// The smallest page, and what the system writes as a whole when the process dies.
pub const PAGE: usize = 4096;
