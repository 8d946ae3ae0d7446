//! Areas: the mapped ranges of addresses of a space.
//!
//! - Owns: the areas ([`area`]), their set ([`set`]) and end ([`close`]), policies ([`policy`]);
//!   for areas that map files, their state ([`file`](mod@file)), the links from a file ([`maps`]),
//!   the file used last at an address ([`noted`]), and truncation ([`cut`]).
//! - May call: `tables`, `pages`, `supply`, `words`, `error`; files, by the cache's `MappedFile`.
//!   Links refer to a space above by a trait ([`maps::LinkedSpace`]).
//! - Promises: an area is linked from before it can have an entry until it has none (F1 of
//!   [`crate::pages::family`], F3 of [`maps`]). Each noted file is mapped (M1 of [`noted`]). After
//!   a truncation no space has a copy of a page past the end (C1 to C3 of [`cut`]).
//! - Locks: the lock of an area's own family; those of links. The caller holds the structure lock.

pub(crate) mod area;
pub(crate) mod close;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod maps;
pub(crate) mod noted;
pub(crate) mod policy;
pub(crate) mod set;
