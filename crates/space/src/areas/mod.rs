//! Areas: which addresses of a space are what.
//!
//! Owns: the areas ([`area`]) and the set of them that a structure lock guards ([`set`]); policies ([`policy`]); what an area that
//! shows a file knows ([`file`](mod@file)), from a file to its areas ([`maps`]), which file was used where last ([`noted`]), how private
//! copies go when a file gets shorter ([`cut`]), and the end of areas ([`close`]).
//!
//! May call: `tables` (is there a copy?), `pages` (links), `supply` (stopping writers), `words`, `error`; files, by the cache's
//! `MappedFile`. The state of a space is above: links lead to it by a trait ([`maps::LinkedSpace`]).
//!
//! Promises: an area is linked before an entry of it can exist, and until none does (F1, F3). A file that is noted is one that an
//! area of the space has (M1 of [`noted`]). After a cut no space has a copy of what lies past the end (C1 to C3 of [`cut`]).
//!
//! Locks: an area's own family; those of the links. The structure lock is the caller's.

pub(crate) mod area;
pub(crate) mod close;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod maps;
pub(crate) mod noted;
pub(crate) mod policy;
pub(crate) mod set;
