//! Moving pages to other frames while they are in use: to another node, or out of the place of a large block.
//!
//! Owns: the protocol ([`migrate`]), in steps: which pages ([`find`]; of files, [`files`]), a page on its way ([`page`]), from a page
//! to its entries ([`walk`]), the two walks and the copy between them ([`mover`]), what came of it ([`report`]); and compaction
//! ([`compact`]).
//!
//! May call: `areas` (the areas of a range, and their lock), `tables`, `pages`, `supply`, `words`, `error`. It is handed these parts
//! of a space, and not the whole: `access` calls it for blocks, from below a fault.
//!
//! Promises: nothing that can be read changes; a page ends in its new frame or stays in the old one, and every entry that there is
//! follows, whatever is forked, copied and unmapped meanwhile (A1 to A4 of [`migrate`]).
//!
//! Locks: the structure lock for reading while a batch is found; families' locks, and claims one at a time, in walks; none while it
//! waits.

pub(crate) mod compact;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod migrate;
pub(crate) mod mover;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod walk;
