//! Page tables, which spaces share ([`table`]), and the directory of one space ([`of_space`]).
//!
//! - Promises: in a table with several shares, no empty entry is filled and no entry is writable
//!   (T1, T2 of [`table`]). A table is not freed while a [`table::Held`] of it exists. While the
//!   structure lock of a space is held for reading, a table is freed only after a copy has replaced
//!   it in the directory. Waiters for a migration entry are woken when it changes or its table is
//!   removed.
//! - Locks: the unsharing lock, for exchanges of a space's tables.

pub(crate) mod of_space;
pub(crate) mod table;
