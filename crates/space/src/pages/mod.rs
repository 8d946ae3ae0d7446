//! Pages: the metadata of their frames, and the families by which their entries are found.
//!
//! - Owns: counts of entries, and isolation ([`record`]); the owner of a page ([`owner`]); families
//!   ([`family`]); links to areas ([`links`], over an interval tree).
//! - May call: `supply` (only the pool), `words`. No table and no space: links lead to directories.
//! - Promises: every entry that names a frame is counted, in one step with its creation, conversion
//!   and drop (I1 to I3 of [`crate::words::counts`]). The thread that makes the count zero drops
//!   the reference of the entries, once. An area is linked while its space may have an entry of the
//!   family (F1, F2 of [`family`]).
//! - Locks: that of each tree of links; entries are claimed with it held.

pub(crate) mod family;
pub(crate) mod links;
pub(crate) mod owner;
pub(crate) mod record;
mod tree;
