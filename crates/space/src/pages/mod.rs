//! Pages: the metadata of their frames, and the families by which their entries are found.
//!
//! - Owns: counts of entries, and isolation ([`record`]); the owner of a page ([`owner`]); families
//!   ([`family`]); links to areas ([`links`], over an interval tree).
//! - May call: `supply` (only the pool), `words`. It accesses no tables or spaces: links refer to
//!   directories.
//! - Promises: every entry that names a frame is counted. The count changes under the claim under
//!   which the entry is created, converted or dropped (I1 to I3 of [`crate::words::counts`]). The
//!   thread that makes the count zero drops the reference of the entries, once. An area is linked
//!   while its space may have an entry of the family (F1, F2 of [`family`]).
//! - Locks: the lock of each tree of links, whose holder may claim entries.

pub(crate) mod family;
pub(crate) mod links;
pub(crate) mod owner;
pub(crate) mod record;
mod tree;
