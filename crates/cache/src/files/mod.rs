//! The open files of a cache: opening, closing, and the thread that writes back.
//!
//! Owns. The state that is one for a cache ([`state::Files`]); the open files by identity and by number ([`registry`]); shares of
//! them ([`opened`]) and visits of them ([`visit`]); making pages of any file clean ([`clean`]); the thread ([`background`])
//! and its work in a round ([`rounds`]); the services of the whole cache that rooms below ask for ([`keeper`]).
//!
//! Calls everything below but `read` and `write`. It looks at files one at a time, each by a visit.
//!
//! Promises. The same inode is one file. When the last handle has gone, everything is durable or an error was told; when the
//! last share has gone, the file is closed. If either goes in a hook, the thread does that later. A visitor does not keep a closed
//! file open.

pub(crate) mod background;
pub(crate) mod clean;
mod keeper;
pub(crate) mod opened;
pub(crate) mod registry;
pub(crate) mod rounds;
pub(crate) mod setup;
mod share;
pub(crate) mod state;
pub(crate) mod visit;

#[cfg(all(test, not(loom)))]
mod tests;
