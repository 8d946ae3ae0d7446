//! Moves of pages to other frames while they are in use: to other nodes, or for large blocks.
//!
//! - Owns: moves of isolated pages ([`walk`], [`mover`]), the [`report`], and compaction
//!   ([`compact`]). It uses no space, since `mm` calls it to allocate. [`crate::change::migrate`]
//!   has the protocol.
//! - Promises: no readable byte changes. Afterwards all entries of a page name its new frame, or
//!   all its old one, whatever runs concurrently (A1 to A4 of the protocol).
//! - Locks: those of the protocol.

pub(crate) mod compact;
pub(crate) mod mover;
pub(crate) mod report;
pub(crate) mod walk;
