//! Pages: the records of their frames, and the families by which their entries are found.
//!
//! Owns: the counts of entries and their isolation ([`record`]), whose a page is ([`owner`]), the families ([`family`]) and links to
//! areas ([`links`], over an interval tree).
//!
//! May call: `supply` (the pool is all it needs), `words`. It knows no table and no space: a link leads to a directory.
//!
//! Promises: every entry that names a frame is counted, in one step with its making, turning and dropping (I1 to I3 of
//! [`crate::words::counts`]); who brings the count to zero frees the frame, once. An area is linked for as long as its space may
//! have an entry of the family (F1, F2 of [`family`]).
//!
//! Locks: that of each tree of links; entries are claimed with it held.

pub(crate) mod family;
pub(crate) mod links;
pub(crate) mod owner;
pub(crate) mod record;
mod tree;
