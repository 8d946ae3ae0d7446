//! Moves of pages to other frames while they are in use: to other nodes, or for large blocks.
//!
//! - Owns: the protocol ([`migrate`]), its parts ([`find`], [`walk`], [`page`], [`mover`]) and
//!   [`report`], moves of file pages ([`files`]), and compaction ([`compact`]). Callers pass parts
//!   of a space instead of the space, since `access` calls this module in faults.
//! - Promises: no readable byte changes. Afterwards all entries of a page name its new frame, or
//!   all its old one, whatever runs concurrently (A1 to A4 of [`migrate`]).
//! - Locks: those of [`migrate`].

pub(crate) mod compact;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod migrate;
pub(crate) mod mover;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod walk;
