//! Moves of pages to other frames while they are in use: to other nodes, or for large blocks.
//!
//! - Owns: the protocol ([`migrate`]) and its steps: selection of pages ([`find`]; of files,
//!   [`files`]), a page in motion ([`page`]), from a page to its entries ([`walk`]), the two walks
//!   and the copy between them ([`mover`]), the result ([`report`]); and compaction ([`compact`]).
//! - May call: `areas` (areas of a range, and their lock), `tables`, `pages`, `supply`, `words`,
//!   `error`. It gets these parts, not a space: `access` calls it in faults.
//! - Promises: no readable byte changes. A page ends in its new frame or stays in the old one, and
//!   every entry follows, with concurrent forks, copies and unmapping (A1 to A4 of [`migrate`]).
//! - Locks: the structure lock for reading while a batch is selected; families' locks, and claims
//!   one at a time, in walks; none while it waits.

pub(crate) mod compact;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod migrate;
pub(crate) mod mover;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod walk;
