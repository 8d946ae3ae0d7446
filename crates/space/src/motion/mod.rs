//! Moves of pages to other frames while they are in use: to other nodes, or for large blocks.
//!
//! - Owns: the protocol ([`migrate`]) and its parts ([`find`], [`files`], [`page`], [`walk`],
//!   [`mover`]), the result ([`report`]), and compaction ([`compact`]).
//! - May call: `areas`, `tables`, `pages`, `supply`, `words`, `error`. Callers pass these parts
//!   instead of a space, since `access` calls it in faults.
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
