//! Words of page tables, directories and frame metadata, and the only ways to change them.
//!
//! - Owns: the entries of tables ([`pte`]) and of directories ([`pmd`]), the counts in a page's
//!   metadata ([`counts`]), addresses ([`geometry`]) and the decision of a write ([`cow`]), which
//!   are pure; the claim of an entry ([`claim`]) and the [`directory`], which access atomics.
//! - Promises: a table's entry is changed only under its claim (exceptions: [`claim`]). Each change
//!   of it, or of a directory's entry, increments its version. The holder of a claim neither waits
//!   nor allocates (C1 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod counts;
pub(crate) mod cow;
pub(crate) mod directory;
pub(crate) mod geometry;
pub(crate) mod pmd;
pub(crate) mod pte;
