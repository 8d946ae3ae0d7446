//! The open files of a cache: opening, closing, and the thread that writes back.
//!
//! Owns. All that is one for a cache ([`state::Files`]); the open files by what they are and by number ([`registry`]); shares of
//! them ([`opened`]) and looks at them ([`visit`]); making pages clean, of whatever file ([`clean`]); the thread ([`background`])
//! and what it does in a round ([`rounds`]); what rooms below ask of the cache as a whole ([`keeper`]).
//!
//! Calls everything below but `read` and `write`. Each file is looked at one at a time, by a visit.
//!
//! Promises. The same inode is one file. When the last handle has gone, everything is durable or an error was told; when the
//! last share has gone, the file is closed: in a hook both are done later, by the thread. A file that is closed is not kept open by who looks at it.

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
