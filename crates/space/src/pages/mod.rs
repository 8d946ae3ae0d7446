//! Pages: the metadata of their frames, and the families by which their entries are found.
//!
//! - Owns: counts and isolation ([`record`]), owners ([`owner`]), families and links ([`links`]).
//! - May call: `supply` (the pool and its `view`), `words`. It accesses no tables or spaces.
//! - Promises: every entry that names a frame is counted (I1 to I3 of [`crate::words::counts`]). An
//!   area is linked while its space may have an entry of the family (F1, F2 of [`links`]).
//! - Locks: the lock of each tree of links, whose holder may claim entries.

pub(crate) mod links;
pub(crate) mod owner;
pub(crate) mod record;
mod tree;
