//! Moves of pages to other frames while they are in use: to other nodes, or for large blocks.
//!
//! - Owns: the protocol ([`migrate`]) and its parts: the selection of pages ([`find`]), pages of
//!   files ([`files`]), the record of a page that is being moved ([`page`]), the walk from a page
//!   to its entries ([`walk`]), the two walks and the copy between them ([`mover`]), the result
//!   ([`report`]); and compaction ([`compact`]).
//! - May call: `areas` (areas of a range, and their lock), `tables`, `pages`, `supply`, `words`,
//!   `error`. Callers pass these parts instead of a space, since `access` calls it in faults.
//! - Promises: no readable byte changes. Afterwards a page is in its new frame or still in the old
//!   one, and every entry names this frame, also with concurrent forks, copies and unmapping (A1 to
//!   A4 of [`migrate`]).
//! - Locks: the structure lock for reading while a batch is selected; in walks, the lock of a
//!   family, and one claim at a time; no lock during waits.

pub(crate) mod compact;
pub(crate) mod files;
pub(crate) mod find;
pub(crate) mod migrate;
pub(crate) mod mover;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod walk;
