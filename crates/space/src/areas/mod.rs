//! Areas: the mapped ranges of addresses of a space.
//!
//! - May call: modules below; files by `MappedFile`, and spaces above by [`file::LinkedSpace`].
//! - Promises: an area is linked from before it can have an entry until it has none (F1 of
//!   [`crate::pages::links`], F3 of [`mod@file`]). Each noted file is mapped (M1 of [`noted`]).
//!   After a truncation no space has a copy of a page past the end (C1 to C3 of [`cut`]).
//! - Locks: the lock of an area's own family; those of links. The caller holds the structure lock.

pub(crate) mod area;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod noted;
pub(crate) mod options;
pub(crate) mod set;
