//! The words that spaces are made of, and the only ways to change them.
//!
//! Owns: the entries of tables ([`pte`]) and of directories ([`pmd`]), the counts in a page's record ([`counts`]), addresses
//! ([`geometry`]) and the decision of a write ([`cow`]), all pure; and the two atomic shells: the claim of a table's entry
//! ([`claim`]) and the directory ([`directory`]).
//!
//! May call: nothing of this crate.
//!
//! Promises: an entry is changed under its claim only, and each change moves its version (as does each change of a directory's
//! entry). Who has a claim neither waits nor allocates (C1 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod counts;
pub(crate) mod cow;
pub(crate) mod directory;
pub(crate) mod geometry;
pub(crate) mod pmd;
pub(crate) mod pte;
