//! Page tables: the tables of a pool, which spaces share ([`table`]), and the directory of one
//! space ([`of_space`]).
//!
//! - Owns: the frames of tables, the number of their shares, and each space's directory.
//! - May call: `pages` (counts copied and dropped entries), `supply`, `words`, `error`.
//! - Promises: in a table with several shares, no empty entry is filled and no entry is writable
//!   (T1, T2 of [`table`]). A table is not freed while it is held. While the structure lock of a
//!   space is held for reading, none of its tables is freed, except one that a copy has replaced in
//!   the directory. Waiters for a migration entry are woken when it changes or its table is
//!   removed.
//! - Locks: the unsharing lock, for exchanges of a space's tables.

pub(crate) mod of_space;
pub(crate) mod table;
