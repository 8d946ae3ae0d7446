//! Random histories of a file over losses of power, and the checks of what survives.
//!
//! The tests of the facade and `pagewell crash-test` run the same histories against the
//! same checks. Unlike the testkit, this crate uses the library that it tests, and only its public interface.
//!
//! | module | what |
//! |---|---|
//! | [`history`] | the steps done to a file, as data: from a seed, and shortened |
//! | [`run`](mod@run) | runs the steps, on a cache and a device that loses unsynced data |
//! | `program` | a program that has the file open, and its death |
//! | [`model`] | the content of the file, and the contents possible after a loss of power or of the process |
//! | [`log`] | a write-ahead log beside the file, whose order is checked too |
//! | [`plug`] | a backend whose program may die |
//! | [`script`] | a backend each of whose calls can be made to fail |
//! | `simulator` | many threads and tasks in one schedule that a seed decides (feature `simulator`) |
//! | [`block`](mod@block) | blocks that name their version |
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
#[cfg(feature = "simulator")]
pub mod simulator;

pub use block::{BLOCK, Block, block};
pub use history::{History, Step};
pub use model::Model;
pub use program::stored;
pub use run::{Broken, Tally, run};
pub use script::{EIO, ENOSPC, Script, Way, errno};

/// The smallest page, and the unit that the system writes as a whole when the process dies.
pub const PAGE: usize = 4096;
