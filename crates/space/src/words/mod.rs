//! Words of page tables, directories and frame metadata, and the only ways to change them.
//!
//! - Owns: value types and functions ([`pte`], [`pmd`], [`counts`], [`geometry`]), and accesses to
//!   atomics ([`claim`], [`pmd::Directory`]).
//! - Promises: a table's entry is changed only under its claim, and each change increments its
//!   version (exceptions: [`claim`]), as does each change of a directory's entry. The holder of a
//!   claim neither waits nor allocates (C1 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod counts;
pub(crate) mod geometry;
pub(crate) mod pmd;
pub(crate) mod pte;
