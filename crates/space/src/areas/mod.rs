//! Areas: the mapped ranges of addresses of a space.
//!
//! - Owns: the areas ([`area`]) and their set under the structure lock ([`set`]); policies
//!   ([`policy`]); the state of an area that maps a file ([`file`](mod@file)), from a file to its
//!   areas ([`maps`]), the file used last at an address ([`noted`]), truncation of private copies
//!   ([`cut`]), and the end of areas ([`close`]).
//! - May call: `tables` (lookups of copies), `pages` (links), `supply` (stops writers), `words`,
//!   `error`; files, by the cache's `MappedFile`. The state of a space is above: links lead to it
//!   by a trait ([`maps::LinkedSpace`]).
//! - Promises: an area is linked before an entry of it can exist, until none does (F1, F3). A noted
//!   file is one that an area of the space has (M1 of [`noted`]). After a truncation no space has a
//!   copy of a page past the end (C1 to C3 of [`cut`]).
//! - Locks: an area's own family; those of the links. The caller holds the structure lock.

pub(crate) mod area;
pub(crate) mod close;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod maps;
pub(crate) mod noted;
pub(crate) mod policy;
pub(crate) mod set;
