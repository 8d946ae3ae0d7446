//! The open files of a cache: opening, closing, and the threads that write back.
//!
//! Owns. The state that is one for a cache ([`state::Files`]); the open files by identity and by number ([`registry`]); shares of
//! them ([`opened`]) and visits of them ([`visit`]); the threads ([`flushers`]) and their work ([`serve`]); waiting for pages to be
//! made clean ([`clean`]); the services of the whole cache that rooms below ask for ([`keeper`]).
//!
//! Calls everything below but `read` and `write`. It looks at files one at a time, each by a visit.
//!
//! Promises. The same inode is one file. When the last handle has gone, everything is durable or an error was told; when the
//! last share has gone, the file is closed. If either goes in a hook, a flusher does that later. No file waits for the storage or
//! the hook of another. A visitor does not keep a closed file open.

pub(crate) mod clean;
pub(crate) mod flushers;
mod keeper;
pub(crate) mod opened;
pub(crate) mod registry;
#[cfg(not(loom))]
pub(crate) mod same;
pub(crate) mod serve;
pub(crate) mod setup;
mod share;
pub(crate) mod state;
pub(crate) mod visit;

#[cfg(all(test, not(loom)))]
mod tests;
