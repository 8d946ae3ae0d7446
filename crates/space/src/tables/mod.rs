//! Page tables: those of all spaces of a pool, which spaces share ([`table`]), and those of one space ([`of_space`]).
//!
//! Owns: the frames that are tables, the number of their users, and each space's directory.
//!
//! May call: `pages` (an entry that is copied or dropped is counted there), `supply`, `words`, `error`.
//!
//! Promises: a table with several users has none of its empty entries filled, and none that may be written through (T1, T2 of
//! [`table`]). A table that is held, or of a directory whose structure lock is held, is not freed. Who waits for a migration entry
//! is woken when it changes or its table goes.
//!
//! Locks: unsharing, for exchanges of a space's tables.

pub(crate) mod of_space;
pub(crate) mod table;
